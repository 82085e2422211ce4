"""Letters that a figure's font lacks: ids come from a server's clients, in any script."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

FALLBACKS: tuple[tuple[str, ...], ...] = (
    (
        "Microsoft YaHei",
        "PingFang SC",
        "WenQuanYi Zen Hei",
        "WenQuanYi Micro Hei",
        "SimHei",
        "Hiragino Sans GB",
        "Noto Sans CJK SC",
        "Source Han Sans SC",
    ),
    ("Malgun Gothic", "Apple SD Gothic Neo", "Noto Sans CJK KR"),
    ("Noto Emoji", "Segoe UI Emoji", "Symbola"),
)
"""Fonts asked after the style's own, the first that is installed of each line: Chinese and Japanese, Korean, emoji.
TrueType ones first: PDF readers complain of the others as matplotlib embeds them."""

_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")
_heard: ContextVar[set[str] | None] = ContextVar("letters_without_glyph", default=None)


@lru_cache(maxsize=1)
def fallbacks() -> tuple[str, ...]:
    """Those of `FALLBACKS` that this machine has."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    first = (next((name for name in names if name in installed), None) for names in FALLBACKS)
    return tuple(name for name in first if name)


def printable(text: str) -> str:
    """The text with spaces for what isn't printed: control characters have no glyph in any font."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def clean(figure: Any) -> None:
    """Make every text of a matplotlib figure `printable`."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if not (words := text.get_text()).isprintable():
            text.set_text(printable(words))


@contextmanager
def letters_without_glyph() -> Iterator[set[str]]:
    """The letters of all figures drawn in the block that no font had: boxes stand for them. Nobody is warned then."""
    letters: set[str] = set()
    token = _heard.set(letters)
    try:
        yield letters
    finally:
        _heard.reset(token)


def lacking(letters: set[str]) -> str:
    """The same in one line, for people."""
    shown = " ".join(sorted(letters)[:12]) + (" ..." if len(letters) > 12 else "")
    return (
        f"no font here has {shown}: boxes stand for such letters in the figures; "
        "install a font that has them, such as WenQuanYi Zen Hei or Noto Emoji"
    )


@contextmanager
def one_warning() -> Iterator[None]:
    """matplotlib warns of each missing glyph each time; of a whole figure that becomes one line, `lacking`.

    Not for two threads at once: Python's warnings are the process's.
    """
    fonts = logging.getLogger("matplotlib.font_manager")
    fonts.addFilter(_not_of_weight)
    missing: set[str] = set()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            yield
    finally:
        fonts.removeFilter(_not_of_weight)
    for one in said:
        if glyph := _GLYPH.match(str(one.message)):
            missing.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    heard = _heard.get()
    if heard is not None:
        heard |= missing
    elif missing:
        warnings.warn(lacking(missing), stacklevel=4)


def _not_of_weight(record: logging.LogRecord) -> bool:
    """A fallback without a bold cut is used as it is."""
    return "Failed to find font weight" not in record.getMessage()
