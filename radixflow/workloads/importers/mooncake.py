"""Mooncake traces: arrivals, lengths and the hashes of 512-token prompt blocks, no text.

    {"timestamp": ms, "input_length": n, "output_length": m, "hash_ids": [0, 1, 2, ...]}

A block's hash covers everything before it too, so equal ids are equal prefixes. Block 17 becomes
the segment `["b17", 512]`; the last one is cut to the prompt's length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from radixflow.workloads.arguments import number, whole
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.errors import WorkloadError, shown
from radixflow.workloads.lines import read_objects
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.workload import Workload, WorkloadRequest

BLOCK = 512
"""Tokens a hash id stands for, fixed by the format."""


def import_mooncake(
    path: Path, tokenizer: Tokenizer = BYTES, *, limit: int | None = None, speed: float = 1.0
) -> Workload:
    """The first `limit` requests (all without), their arrivals `speed` times as fast.

    The format has no text, so `tokenizer` is not used.
    """
    if limit is not None:
        whole("limit", limit)
    number("speed", speed)
    requests: list[WorkloadRequest] = []
    for line_number, line in read_objects(path):
        if len(requests) == limit:
            break
        try:
            requests.append(_request(f"m{len(requests)}", line, speed))
        except WorkloadError as error:
            raise error.at(f"{path}:{line_number}") from None
    faster = f", {speed:g} times as fast" if speed != 1 else ""
    return Workload(
        name=path.name.removesuffix(".jsonl"),
        note=f"{len(requests):,} request{'s' * (len(requests) != 1)} of a Mooncake trace{faster}",
        source="Mooncake trace",
        engine=EngineOptions(max_num_seqs=64, max_num_batched_tokens=8192),
        layout=EngineOptions(block_size=BLOCK, num_blocks=2670, state_groups=3),
        requests=requests,
    )


def _request(id: str, line: dict[str, Any], speed: float) -> WorkloadRequest:
    for key in ("timestamp", "input_length", "output_length", "hash_ids"):
        if key not in line:
            raise WorkloadError(f"no {key}; expected timestamp, input_length, output_length and hash_ids")
    timestamp = number("timestamp", line["timestamp"], or_equal=True)
    length = whole("input_length", line["input_length"])
    hash_ids = line["hash_ids"]
    if not isinstance(hash_ids, list) or not all(type(block) is int and block >= 0 for block in hash_ids):
        raise WorkloadError(f"hash_ids is {shown(hash_ids)}; expected a list of whole numbers, 0 or more")
    blocks = -(-length // BLOCK)
    if len(hash_ids) != blocks:
        raise WorkloadError(
            f"hash_ids names {len(hash_ids)} blocks for {length} tokens; expected {blocks} blocks of {BLOCK}"
        )
    prompt = [(f"b{block}", BLOCK) for block in hash_ids]
    prompt[-1] = (prompt[-1][0], length - (blocks - 1) * BLOCK)
    return WorkloadRequest(
        id=id,
        prompt=prompt,
        arrival=round(timestamp / 1000 / speed, 6),
        output_tokens=whole("output_length", line["output_length"]),
    )
