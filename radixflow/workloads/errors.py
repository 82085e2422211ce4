"""The one error of this room, and the phrases that its messages share."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable


class WorkloadError(ValueError):
    """Something is wrong with a workload. One line: where, what is wrong, what was expected."""

    def __init__(self, message: str) -> None:
        # What is quoted from a file may hold line ends, or lone surrogates that no terminal takes.
        super().__init__(" ".join(message.encode("utf-8", "replace").decode().splitlines()))

    def at(self, where: str) -> WorkloadError:
        """The same complaint with its place, `FILE:LINE` or a request's id, in front."""
        return WorkloadError(f"{where}: {self}")


def near(word: str, known: Iterable[str], what: str = "names") -> str:
    """`did you mean ...?` where some known name is close to `word`, otherwise the known ones."""
    known = list(known)
    matches = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    # A beginning is the commonest abbreviation ("d08" for "d08-small-behind-big").
    matches += [name for name in known if word and name.startswith(word) and name not in matches]
    if matches:
        return "did you mean " + " or ".join(f'"{name}"' for name in matches[:4]) + "?"
    return f"{what}: " + ", ".join(sorted(known))


def shown(value: object) -> str:
    """A value as JSON, short enough for one line."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."
