"""Plain JSON Lines: a prompt a line, as text or token ids.

    {"text": "..."}   or   {"prompt": "..."}   or   {"token_ids": [...]}

Beside it a line may have the optional keys of a workload's request (`id`, `arrival`,
`output_tokens`, ...). Any other key is left out, and the workload's note says which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from radixflow.workloads.arguments import whole
from radixflow.workloads.errors import WorkloadError, shown
from radixflow.workloads.lines import read_objects
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.workload import EXPECTED, Workload, WorkloadRequest, check_links, request_from


def import_plain(
    path: Path, tokenizer: Tokenizer = BYTES, *, limit: int | None = None, output_tokens: int = 1
) -> Workload:
    """The first `limit` lines (all without); `output_tokens` holds where a line doesn't say."""
    if limit is not None:
        whole("limit", limit)
    whole("output_tokens", output_tokens)
    requests: list[WorkloadRequest] = []
    numbers: list[int] = []
    unused: dict[str, None] = {}
    for number, line in read_objects(path):
        if len(requests) == limit:
            break
        values = {key: value for key, value in line.items() if key in EXPECTED}
        unused |= dict.fromkeys(line.keys() - values.keys())
        defaults = {"id": f"r{number}", "output_tokens": output_tokens}
        try:
            requests.append(request_from(defaults | _as_text(values)))
        except WorkloadError as error:
            raise error.at(f"{path}:{number}") from None
        numbers.append(number)
    check_links(requests, lambda i: f"{path}:{numbers[i]}")
    left_out = f"; keys left out: {', '.join(sorted(unused))}" if unused else ""
    return Workload(
        name=path.name.removesuffix(".jsonl"),
        note=f"{len(requests):,} prompt{'s' * (len(requests) != 1)}, read by {tokenizer.name}{left_out}",
        source="plain JSON Lines",
        requests=requests,
        tokenizer=tokenizer,
    )


def _as_text(values: dict[str, Any]) -> dict[str, Any]:
    """`prompt` is a text in plain files, not a list of segments."""
    if "prompt" not in values:
        if isinstance(values.get("text"), list):
            raise WorkloadError(f"text is {shown(values['text'])}; expected a non-empty string")
        return values
    if not isinstance(values["prompt"], str):
        raise WorkloadError(
            f"prompt is {shown(values['prompt'])}; "
            "expected a text (segments belong in a workload file, after its header)"
        )
    if "text" in values:
        raise WorkloadError("both prompt and text; expected one of them")
    return {"text" if key == "prompt" else key: value for key, value in values.items()}
