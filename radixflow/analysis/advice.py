"""What would have helped a request, said only where its trace supports it."""

from __future__ import annotations

from radixflow.analysis.expand import accepted_rounds
from radixflow.analysis.prose import counted, listed

_TRAVERSAL = ("radixflow", "radixflow+frag", "radixflow+noadmit")


def advice(trace, i: int, causes: list[dict]) -> list[str]:
    """Sentences of advice for request i, given its wait's causes (as in `explain`), most rounds first."""
    said: list[str] = []
    given: set[str] = set()
    for entry in sorted(causes, key=lambda entry: -_rounds(entry)):
        give = _ADVICE.get(entry["cause"])
        if give is None or entry["cause"] in given:
            continue
        given.add(entry["cause"])
        sentence = give(trace, i, entry, causes)
        if sentence and sentence not in said:
            said.append(sentence)
    return said


def _rounds(entry: dict) -> int:
    return sum(last - first + 1 for first, last in entry["rounds"])


def _unexamined(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    alike = [other for other in causes if other["cause"] == "unexamined"]
    ranges = [span for other in alike for span in other["rounds"]]
    waited = set().union(*(range(first, last + 1) for first, last in ranges))
    fitting = len(waited.intersection(accepted_rounds(trace, i)))
    if not fitting:
        return None
    blocked = any(other["culprit_cause"] == "blocked" for other in alike)
    rounds = len(waited)
    which = f"{fitting:,} of the {rounds:,} rounds" if fitting < rounds else f"all {rounds:,} rounds"
    when = which if rounds > 1 else "that round"
    text = f"In {when} it would have fitted into the batch, had the scan gone on."
    if blocked and trace.header.policy not in _TRAVERSAL:
        text += (
            " The policy `radixflow` passes over a request whose prefix is still being computed and goes on."
        )
    return text


def _capacity(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    needed, free = entry.get("needed"), entry.get("free")
    if needed is None or free is None:
        return None
    short = needed + (entry.get("watermark") or 0) + (entry.get("reserved") or 0) - free
    if short <= 0:
        return None
    return f"{counted(short, 'more KV block')} in the pool would have let it in when it was last refused."


def _never_fits(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    if entry.get("needed") is None:
        return None
    return (
        f"Only a pool of at least {counted(entry['needed'], 'usable block')} (more GPU memory for the KV "
        "cache) or a shorter prompt helps. A request that can't ever fit should be refused when it arrives."
    )


def _alignment(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    left, block = entry.get("tokens_left"), entry.get("block")
    if left is None or block is None:
        return None
    budget = trace.config.max_num_batched_tokens
    return (
        f"A token budget (`max_num_batched_tokens`) of {budget + block - left:,} instead of {budget:,} would "
        f"have left room for one block of {block:,} tokens."
    )


def _tokens(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    return _budget(trace, entry)


def _not_entered(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    if entry.get("why") == "preemption this round":
        return "More KV blocks, or fewer rows (`max_num_seqs`), keep running requests from being preempted."
    return _budget(trace, entry) if entry.get("spent_by") else None


def _budget(trace, entry: dict) -> str | None:
    """A larger budget always helps; a cap on one request's chunk where one request alone spends most."""
    rounds = [n for first, last in entry["rounds"] for n in (first, last)]
    if not rounds or not entry.get("spent_by"):
        return None
    budget, top = trace.config.max_num_batched_tokens, entry["spent_by"][0]
    visits = trace.visits
    own = visits[visits["round"].between(min(rounds), max(rounds)) & (visits["request"] == top)]
    text = f"A token budget (`max_num_batched_tokens`) above {budget:,} leaves more for those behind"
    cap = trace.config.long_prefill_token_threshold
    if not cap and len(own) and own["tokens"].max() * 2 > budget:
        return (
            f"{text}; so does a cap on the share of one long prompt (`long_prefill_token_threshold`): {top} "
            f"alone took up to {own['tokens'].max():,} of {budget:,} tokens in a round."
        )
    return f"{text}."


def _rows(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    below = entry.get("held_by_lower_priority")
    text = f"A row budget (`max_num_seqs`) above {trace.config.max_num_seqs:,}."
    if below:
        return f"{text} Priority alone does not: vLLM takes no row back from {listed(below)}, only memory."
    return text


def _admission(trace, i: int, entry: dict, causes: list[dict]) -> str | None:
    deadline = trace.config.admission_deadline_ns
    if deadline is None:
        return None
    return f"Admission holds an arrival for up to {deadline / 1e6:g} ms; a policy without admission doesn't."


_ADVICE = {
    "unexamined": _unexamined,
    "capacity": _capacity,
    "never_fits": _never_fits,
    "alignment": _alignment,
    "tokens": _tokens,
    "not_entered": _not_entered,
    "rows": _rows,
    "admission": _admission,
}
