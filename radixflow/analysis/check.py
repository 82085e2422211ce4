"""`check`: does the run keep what the paper promises, and what went wrong in it?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass

from radixflow.analysis.findings import FINDERS, Evidence, Finding
from radixflow.analysis.findings.finding import MOST, joined
from radixflow.analysis.properties import PROPERTIES, Property
from radixflow.analysis.prose import Told, counted

Progress = Callable[[int, int], None]
"""Called with steps done and steps to do; a step is a round, or a finder's work counted in rounds."""

_EVERY = 512


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Told):
    """What `check --json` prints."""

    properties: list[Property]
    findings: list[Finding]

    @property
    def text(self) -> str:  # type: ignore[override]
        """What was found, and which properties don't hold, in words."""
        held = [one for one in self.properties if one.checked]
        broken = [one for one in held if not one.holds]
        if not any(one.checked for one in held if one.name == "feasible"):  # it counts rounds
            return "Nothing to check: no round was recorded."
        found = counted(len(self.findings), "finding") if self.findings else "No findings"
        kept = f"all {len(held)} properties hold" if not broken else f"{len(broken)} of {len(held)} properties broken"
        lines = [f"{found}; {kept}."]
        lines += [f"- `{one.code}` ({one.severity}): {one.message}" for one in self.findings]
        for one in broken:
            what = (one.counterexample or {}).get("what")
            lines.append(f"- Broken: {one.name.replace('_', ' ')}: {what}.")
        return "\n".join(lines)

    def to_dict(self) -> dict:
        """CONTRACT's `{properties, findings}`."""
        return {
            "properties": [asdict(one) for one in self.properties],
            "findings": [one.to_dict() for one in self.findings],
        }


def check(trace, progress: Progress | None = None) -> CheckReport:
    """Check one trace: the properties and the findings, in a fixed order.

    One pass over the rounds, then each property and finder over tables derived from them. Memory grows with
    requests and refusals, never with rounds x queue.
    """
    rounds = trace.num_rounds
    step = max(1, rounds // 10)
    total = rounds + step * (len(PROPERTIES) + len(FINDERS))
    tell = progress or (lambda done, total: None)
    evidence = Evidence(trace)
    checks = [make(evidence) for make in PROPERTIES]
    for count, view in enumerate(trace.iter_rounds()):
        evidence.seen.see(view)
        for one in checks:
            one.see(view)
        if count % _EVERY == 0:
            tell(min(view.n, rounds), total)
    done = rounds
    properties, findings = [], []
    for one in checks:
        properties.append(one.result())
        tell(done := done + step, total)
    for finder in FINDERS:
        findings += _bounded(list(finder.find(evidence)))
        tell(done := done + step, total)
    return CheckReport(properties, findings)


def _bounded(findings: list[Finding]) -> list[Finding]:
    """At most `MOST` findings a code: the rest, those of the fewest requests and rounds, become one."""
    by_code: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_code[finding.code].append(finding)
    kept = []
    for code, own in by_code.items():
        if len(own) > MOST:
            own = sorted(own, key=lambda f: -len(f.requests))
            own, rest = own[: MOST - 1], own[MOST - 1 :]
            names = list(dict.fromkeys(name for f in rest for name in f.requests))
            rounds = joined((a, b) for f in rest for a, b in f.rounds)
            message = f"{counted(len(rest), 'more finding')} of this kind, with {counted(len(names), 'request')}."
            own.append(Finding(code, rest[0].severity, names, rounds, message, {"more": len(rest)}))
        kept += own
    return kept
