"""What a property's check says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Property:
    """One entry of `check --json`'s `properties`."""

    name: str
    holds: bool
    """No counterexample was found. With `checked` 0 the trace has nothing to hold it against."""
    checked: int
    """How many cases were looked at; each property's docstring says what a case is."""
    counterexample: dict | None
    """The first case that breaks it: `round` or `request`, `what` (one sentence), and the numbers."""


class Tally:
    """Counts a property's cases and keeps the first that breaks it."""

    name = ""
    promise = ""
    """What holds, in a sentence."""

    def __init__(self, evidence):
        self._checked = 0
        self._counterexample: dict | None = None

    def see(self, view) -> None:
        """Take one round; nothing to do by default."""

    def result(self) -> Property:
        """After the last round."""
        return Property(self.name, self._counterexample is None, self._checked, self._counterexample)

    def _breaks(self, what: str, **facts) -> None:
        if self._counterexample is None:
            self._counterexample = {**facts, "what": what}
