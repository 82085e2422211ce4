"""One round as CONTRACT's `rounds --json` states it: request numbers become ids, times seconds."""

from __future__ import annotations

from typing import Any

import msgspec

from radixflow.analysis.cost import NS


def round_record(trace, view) -> dict[str, Any]:
    """The JSON object of a `RoundView`. `host_seconds` is null where no answer was recorded."""
    ids = trace.ids
    stop = view.stop
    return {
        "round": view.n,
        "selected": [[ids[i], tokens] for i, tokens in view.selected],
        "blocked": [
            {
                "id": ids[entry.i],
                "producer": ids[entry.producer] if entry.producer >= 0 else None,
                "boundary": entry.boundary,
                "groups": entry.groups,
            }
            for entry in view.blocked
        ],
        "other": [_other(ids, entry) for entry in view.other],
        "unexamined": [ids[i] for i in view.unexamined],
        "stopped_by": {"id": ids[stop.i] if stop.i is not None else None, "cause": stop.cause}
        if stop
        else None,
        "tokens_used": sum(tokens for _, tokens in view.selected),
        "rows_used": len(view.selected),
        "avoidable_slots": len(view.probe.avoidable) if view.probe is not None else None,
        "free_blocks": view.free,
        "preempted": [ids[i] for i in view.preempted],
        "admitted": [ids[i] for i in view.admitted],
        "released_by": view.released_by,
        "host_seconds": view.host_ns / NS if view.host_ns is not None else None,
    }


def _other(ids: list[str], entry) -> dict[str, Any]:
    facts = msgspec.to_builtins(entry)
    facts.pop("i", None)
    if "producer" in facts:
        facts["producer"] = ids[facts["producer"]] if facts["producer"] >= 0 else None
    return {"id": ids[entry.i], **facts}
