"""Agent session traces: one session a line, its turns with lengths, times and the hashes of their blocks.

    {"id": "s1", "block_size": 64, "hash_id_scope": "local", "requests": [
        {"t": 0.0, "in": 9000, "out": 120, "hash_ids": [1, 2, ...], "api_time": 3.1},
        {"type": "subagent", "agent_id": "x", "requests": [...]}]}

`t` is in seconds from the session's begin, `in` and `out` are tokens. Equal hashes are equal blocks after
equal prefixes, within a session (`local`, the default) or across the file (`global`). A subagent's turns
are a trajectory of their own. The format has no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radixflow.workloads.arguments import number, whole
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.errors import WorkloadError, shown
from radixflow.workloads.lines import read_objects
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.workload import Workload, WorkloadRequest

SCOPES = ("local", "global")


def import_agent_sessions(
    path: Path,
    tokenizer: Tokenizer = BYTES,
    *,
    limit: int | None = None,
    speed: float = 1.0,
    spacing: float = 0.0,
    pauses: bool = True,
) -> Workload:
    """The first `limit` sessions (all without), their times `speed` times as fast.

    spacing: seconds from one session's begin to the next one's, where all begin at 0. pauses=False leaves
    out the recorded times: each turn comes when the one before it in its trajectory is done.
    """
    if limit is not None:
        whole("limit", limit)
    number("speed", speed)
    number("spacing", spacing, or_equal=True)
    requests: list[WorkloadRequest] = []
    sessions = 0
    sizes: dict[int, None] = {}
    names: dict[str, int] = {}
    for line_number, line in read_objects(path):
        if sessions == limit:
            break
        try:
            session = _Session(line, sessions * spacing, speed, pauses)
            if (first := names.setdefault(session.id, line_number)) != line_number:
                raise WorkloadError(f"id {shown(session.id)} is already that of line {first}; expected each id once")
            requests += session.turns()
        except WorkloadError as error:
            raise error.at(f"{path}:{line_number}") from None
        sizes[session.block] = None
        sessions += 1
    requests.sort(key=lambda request: request.arrival or 0.0)
    block = min(sizes, default=64)
    return Workload(
        name=path.name.removesuffix(".jsonl"),
        note=f"{len(requests):,} turns of {sessions:,} agent sessions" + ("" if pauses else ", one upon another"),
        source="agent session trace",
        engine=EngineOptions(max_num_seqs=64, max_num_batched_tokens=8192),
        layout=EngineOptions(block_size=block, num_blocks=1 + 1_300_000 // block, state_groups=0),
        requests=requests,
    )


class _Session:
    """One line."""

    def __init__(self, line: dict[str, Any], begin: float, speed: float, pauses: bool) -> None:
        self.id = str(line["id"])
        self.block = whole("block_size", line["block_size"])
        scope = line.get("hash_id_scope", "local")
        if scope not in SCOPES:
            raise WorkloadError(f"hash_id_scope is {shown(scope)}; expected {' or '.join(SCOPES)}")
        # Blocks of another size are other tokens, whatever their hash.
        self._space = f"b{self.block}." if scope == "global" else f"{self.id}."
        self._entries = _list("requests", line["requests"])
        self._begin, self._speed, self._pauses = begin, speed, pauses

    def turns(self) -> Iterator[WorkloadRequest]:
        main = [(k, entry) for k, entry in enumerate(self._entries) if _kind(entry, k) != "subagent"]
        yield from self._trajectory(self.id, main, "requests")
        for k, entry in enumerate(self._entries):
            if _kind(entry, k) == "subagent":
                inner = list(enumerate(_list(f"requests[{k}].requests", entry.get("requests"))))
                name = f"{self.id}.{entry.get('agent_id', 'sub')}.{k}"
                yield from self._trajectory(name, inner, f"requests[{k}].requests")

    def _trajectory(self, group: str, entries: list[tuple[int, Any]], where: str) -> Iterator[WorkloadRequest]:
        before = None
        for turn, (k, entry) in enumerate(entries):
            try:
                if _kind(entry, k) == "subagent":
                    raise WorkloadError("a subagent of a subagent; expected one level")
                request = self._turn(f"{group}.t{turn}", group, entry, before)
            except WorkloadError as error:
                raise error.at(f"{where}[{k}]") from None
            before = request.id
            yield request

    def _turn(self, id: str, group: str, entry: dict[str, Any], before: str | None) -> WorkloadRequest:
        for key in ("t", "in", "out", "hash_ids"):
            if key not in entry:
                raise WorkloadError(f"no {key}; expected t, in, out and hash_ids")
        begin = number("t", entry["t"], or_equal=True)
        after = None if self._pauses else before
        return WorkloadRequest(
            id=id,
            prompt=self._prompt(id, whole("in", entry["in"]), entry["hash_ids"]),
            arrival=round((self._begin + begin) / self._speed, 6) if after is None else None,
            after=after,
            output_tokens=max(1, whole("out", entry["out"], least=0)),
            group=group,
        )

    def _prompt(self, id: str, length: int, hash_ids: Any) -> list[tuple[str, int]]:
        if not isinstance(hash_ids, list) or not all(type(block) in (int, str) for block in hash_ids):
            raise WorkloadError(f"hash_ids is {shown(hash_ids)}; expected a list of whole numbers or strings")
        blocks = -(-length // self.block)
        if len(hash_ids) > blocks:
            raise WorkloadError(
                f"hash_ids names {len(hash_ids)} blocks for {length} tokens; "
                f"expected at most {blocks} blocks of {self.block}"
            )
        prompt = [(f"{self._space}{block}", self.block) for block in hash_ids]
        rest = length - len(prompt) * self.block
        if rest < 0:
            prompt[-1] = (prompt[-1][0], self.block + rest)
        elif rest:
            prompt.append((f"{id}.rest", rest))  # what has no hash is shared with nobody
        return prompt


def _kind(entry: Any, k: int) -> str | None:
    if not isinstance(entry, dict):
        raise WorkloadError(f"requests[{k}] is {shown(entry)}; expected an object")
    return entry.get("type")


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise WorkloadError(f"{name} is {shown(value)}; expected a non-empty list")
    return value
