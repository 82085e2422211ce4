"""Plain sentences for causes: what stood in a request's way, said to someone who has never read vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_DEFERRED = {
    "grammar": "its output grammar was still being compiled",
    "remote_kv": "its cached tokens were still on their way from another machine",
    "streaming": "its client had not yet sent the next part of its input",
    "lora": "as many LoRA adapters as a round may hold were already in the batch",
    "stale_output": "output of its earlier run was still on its way",
    "connector": "the KV connector had not yet said how much of it is cached elsewhere",
    "encoder": "its images or audio did not fit the encoder's budget or were not ready",
    "throttled": "new prompts were held back to keep the data-parallel engines in step",
}

_CULPRIT = {
    "blocked": "could reuse a prefix that was still being computed in that round",
    "capacity": "did not find enough free KV blocks",
    "never_fits": "needs more KV blocks than the whole pool has",
    "alignment": "could not be cut to whole blocks within what was left of the token budget",
    "tokens": "did not fit what was left of the token budget",
    "deferred": "was not ready to run",
    "fragmented": "was put aside",
}


class Told:
    """Says something in `text`: what matters in its first line, then sentences, and points that begin with "- ".

    Dataclasses that build on it leave their own `repr` out.
    """

    __slots__ = ()
    text: str

    def __repr__(self) -> str:
        return self.text  # at a prompt it is read as it is printed

    def _repr_html_(self) -> str:
        # A notebook wraps paragraphs between words; printed text it cuts anywhere.
        first, *others = (re.sub("`(.+?)`", r"<code>\1</code>", escape(line)) for line in self.text.splitlines())
        html = f"<p><strong>{first}</strong></p>"
        for points, lines in groupby(others, lambda line: line.startswith("- ")):
            if points:
                html += f"<ul>{''.join(f'<li>{line[2:]}</li>' for line in lines)}</ul>"
            else:
                html += "".join(f"<p>{line}</p>" for line in lines)
        return html


class Tabled(Told):
    """Says something in a table under a title, with sentences below."""

    __slots__ = ()

    def _told(self) -> tuple[str, pd.DataFrame, list[str]]:
        """Title, table of text and sentences."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        title, table, sentences = self._told()
        return "\n".join([title, table.to_string(), *sentences])

    def _repr_html_(self) -> str:
        title, table, sentences = self._told()
        below = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        return f"<p><strong>{escape(title)}</strong></p>{table.to_html(border=0)}{below}"


def listed(names: Iterable[str], most: int = 4) -> str:
    """`A`, `A and B`, `A, B and 7 others`."""
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(n: int, noun: str) -> str:
    """`1 round`, `3 rounds`."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def number(value: int | None) -> str:
    """`1,024`; a question mark for what nobody recorded."""
    return "?" if value is None else f"{value:,}"


def spans(ranges: Sequence[Sequence[int]], most: int = 4) -> str:
    """`round 3`, `rounds 1 to 5`, `rounds 1 to 5, 9 and 12 to 14`."""
    ranges = list(ranges)
    parts = [str(a) if a == b else f"{a} to {b}" for a, b in ranges[:most]]
    if len(ranges) > most:
        more = len(ranges) - most
        parts.append(f"{more:,} more stretch{'es' if more > 1 else ''}")
    single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{'round' if single else 'rounds'} {text}"


def seconds(value: float) -> str:
    """A time with three significant digits and a fitting unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return "0 s" if not value else f"{value * 1e9:.3g} ns"


def stopped_by(culprits: Sequence[str], cause: str) -> str:
    """Who stopped the scan and why, as a sentence; one culprit a round, all for the same cause."""
    did = _CULPRIT.get(cause, "could not be selected")
    if len(culprits) == 1:
        who = f"{culprits[0]}, which {did}"
    else:
        who = f"{listed(culprits)} in turn, each of which {did}"
    return f"The scan of the waiting queue stopped at {who}; nothing behind that request was looked at."


def in_the_way(cause: str, facts: dict) -> str:
    """One sentence that says what the cause means, with its facts."""
    match cause:
        case "blocked":
            producer = facts.get("producer", "another request")
            return (
                f"The cached prefix that it can resume from, {number(facts.get('boundary'))} tokens long, was "
                f"being computed by {producer} in the same round; it can be read from the next round on."
            )
        case "capacity":
            return f"It needed {_blocks(facts)}.{_behind(facts)}"
        case "never_fits":
            return (
                f"It needs {number(facts.get('needed'))} KV blocks and the whole pool has "
                f"{number(facts.get('total'))}: it can never be selected.{_behind(facts)}"
            )
        case "alignment":
            return (
                f"{number(facts.get('tokens_left'))} tokens of the round's budget were left, but its next chunk "
                f"must end on a block of {number(facts.get('block'))} tokens: cut to whole blocks, nothing "
                "remained of it."
            )
        case "tokens":
            if facts.get("gate") == "chunking":
                left = facts.get("tokens_left")
                return f"Its prompt may not be cut, and only {number(left)} tokens of budget were left."
            spent = f", most of it by {listed(facts['spent_by'])}" if facts.get("spent_by") else ""
            return f"The round's token budget was used up before the scan reached it{spent}."
        case "rows":
            below = facts.get("held_by_lower_priority")
            more = f" {listed(below)} held some of them with a lower priority." if below else ""
            return f"Every row of the batch was taken before the scan reached it.{more}"
        case "unexamined":
            return stopped_by([facts["culprit"]], facts["culprit_cause"])
        case "not_entered":
            if facts.get("spent_by"):
                return (
                    f"Running requests (most of all {listed(facts['spent_by'])}) used up the token budget, "
                    "so the waiting queue was not looked at."
                )
            if facts.get("why") == "preemption this round":
                return "Running requests ran out of KV blocks; a round that preempts admits nobody."
            return "The scheduler was paused."
        case "admission":
            return f"Admission held it for {seconds(facts['held'])} to let related requests arrive."
        case "fragmented":
            return (
                f"The {number(facts.get('tokens_left'))} tokens left would have cut it short of its next whole "
                "block, so it was put aside for a request that fits."
            )
        case "deferred":
            why = _DEFERRED.get(facts.get("status", ""), "the trace does not say why")
            return f"It was not ready to run: {why}."
        case "in_step":
            return "It arrived while the engine was busy; the next call of the scheduler saw it."
        case _:
            return (
                "The trace does not say: rounds are missing from it, or a round does not name this request."
            )


def _blocks(facts: dict) -> str:
    named = (("reserved", "reserved"), ("watermark", "kept free"))
    kept = [f"{facts[name]:,} {what}" for name, what in named if facts.get(name)]
    more = f" ({' and '.join(kept)})" if kept else ""
    gate = " for its whole prompt" if facts.get("gate") == "full_sequence" else ""
    return f"{number(facts.get('needed'))} KV blocks{gate} and {number(facts.get('free'))} were free{more}"


def _behind(facts: dict) -> str:
    also = [name for name in facts.get("also", ()) if name]
    return f" It would also have been refused as {listed(also)}." if also else ""
