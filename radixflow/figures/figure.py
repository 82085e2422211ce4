"""A figure for print and for notebooks: drawn by matplotlib when it is shown or saved."""

from __future__ import annotations

import io
import logging
import os
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixflow.figures import glyphs

if TYPE_CHECKING:
    import matplotlib.figure

WIDTHS: dict[str, float] = {"column": 3.33, "text": 7.0, "slide": 10.0}
"""Inches: a column and the text block of the usual two-column paper, and a slide."""

FORMATS = (".pdf", ".svg", ".png")

STYLE = Path(__file__).with_name("print.mplstyle")
"""matplotlib settings of every figure; `save(style=...)` names a style file that changes them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What `rf.figures.timeline`, `.tree` and the others return. Displays itself in a notebook."""

    draw: Callable[[matplotlib.figure.Figure, str], None]
    """Draws on an empty matplotlib figure in a theme (`light` or `dark`)."""
    height: Callable[[float], float]
    """Inches high at a width in inches."""
    made_from: str
    """What it shows, and of which traces by id."""
    call: str = ""
    """The Python call that made it."""

    def save(
        self,
        path: str | os.PathLike[str],
        width: str | float = "text",
        theme: str = "light",
        style: str | os.PathLike[str] | None = None,
        command: str = "",
        source_line: bool = True,
    ) -> Path:
        """Write `.pdf` (fonts embedded), `.svg` or `.png`; the same figure gives the same bytes.

        Arguments: `width` in inches or a name in `WIDTHS`; `style` a matplotlib style file whose settings go
        before those of `STYLE`; `command` what made the figure (its Python call by default), which the file's
        metadata and, with `source_line`, a line below it carry together with the traces' ids.
        Raises ValueError for another suffix, width, theme or style, OSError where `path` can't be written.
        """
        path = Path(path)
        if path.suffix.lower() not in FORMATS:
            raise ValueError(f"{path.name}: unknown figure format, expected one of {', '.join(FORMATS)}")
        data = self.render(path.suffix.lower()[1:], width, theme, style, command, source_line)
        part = path.with_name(f".{path.name}.part")
        try:
            part.write_bytes(data)
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True) if part.parent.is_dir() else None
            raise type(error)(error.errno, error.strerror, str(path)) from None
        return path

    def render(
        self,
        format: str,
        width: str | float = "text",
        theme: str = "light",
        style: str | os.PathLike[str] | None = None,
        command: str = "",
        source_line: bool = True,
    ) -> bytes:
        """The file's bytes; arguments as for `save`, `format` one of `pdf`, `svg`, `png`."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
        from matplotlib.transforms import Bbox

        from radixflow.figures.palette import THEMES

        inches = inches_of(width)
        if theme not in THEMES:
            raise ValueError(f"theme {theme!r}: unknown, expected one of {', '.join(THEMES)}")
        origin = "; ".join(part for part in (command or self.call, self.made_from) if part)
        metadata: dict[str, dict[str, Any]] = {
            "svg": {"Date": None, "Creator": "radixflow", "Description": origin},
            "pdf": {"CreationDate": None, "Creator": "radixflow", "Subject": origin},
            "png": {"Software": "radixflow", "Description": origin},
        }
        with styled(style), glyphs.one_warning():
            high = self.height(inches)
            figure = Canvas(figsize=(inches, high), facecolor=THEMES[theme]["panel"])
            FigureCanvasAgg(figure)
            self.draw(figure, theme)
            below = _source_line(figure, origin, theme, inches, high) if source_line else 0.0
            glyphs.clean(figure)
            out = io.BytesIO()
            whole = Bbox([[0, -below], [inches, high]])
            figure.savefig(out, format=format, dpi=220, metadata=metadata[format], bbox_inches=whole)
        return out.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # PNG and SVG show in every front end, nbconvert and code hosts included.
        return {
            "image/png": self.render("png", source_line=False),
            "image/svg+xml": self.render("svg", source_line=False).decode("utf-8"),
            "text/plain": f"<Figure: {self.made_from}>",
        }


def inches_of(width: str | float) -> float:
    """Inches of a width that is a name in `WIDTHS`, or a number. ValueError for any other."""
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    try:
        inches = float(width)
    except ValueError:
        inches = 0.0
    if not 1 <= inches <= 60:
        raise ValueError(f"width {width!r}: expected 1 to 60 inches, or one of {', '.join(WIDTHS)}")
    return inches


_STYLING = threading.RLock()
"""matplotlib's settings are the process's: one picture at a time."""


@contextmanager
def styled(style: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """matplotlib's defaults, then `STYLE`, then a style file of the user's, while the block runs."""
    import matplotlib
    import matplotlib.style

    with _STYLING, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.style.use(STYLE)
        if style is not None:
            _use(Path(style))
        matplotlib.rcParams["font.family"] = [*matplotlib.rcParams["font.family"], *glyphs.fallbacks()]
        yield


def _use(style: Path) -> None:
    """A user's style file: matplotlib only logs what it doesn't understand in one, this refuses it."""
    import matplotlib

    if not style.is_file():
        raise ValueError(f"{style}: no such style file, expected matplotlib settings, one 'name: value' a line")
    heard: list[str] = []
    log = logging.getLogger("matplotlib")
    ear = logging.Handler(logging.WARNING)
    ear.emit = lambda record: heard.append(record.getMessage())
    log.addHandler(ear)
    try:
        found = matplotlib.rc_params_from_file(str(style), use_default_template=False)
    finally:
        log.removeHandler(ear)
    if heard:
        raise ValueError(f"style: {' '.join(heard[0].split())}")
    matplotlib.rcParams.update(found)


def _source_line(figure: Any, origin: str, theme: str, inches: float, high: float) -> float:
    """Write what made the figure below it; returns how many inches that takes."""
    import matplotlib

    from radixflow.figures.lettering import width_of
    from radixflow.figures.palette import THEMES

    size = matplotlib.rcParams["font.size"]
    letters = max(20, int((inches - 0.06) / width_of("abcdefghij 0123456789") * 21))
    lines = textwrap.wrap(" ".join(origin.split()), letters, break_on_hyphens=False)
    step = size * 1.25 / 72
    for k, line in enumerate(lines):
        y = -(0.02 + step * (k + 0.85)) / high
        figure.text(0.03 / inches, y, line, color=THEMES[theme]["text_soft"], fontsize=size, parse_math=False)
    below = 0.06 + step * len(lines)
    figure.patch.set_bounds(0, -below / high, 1, 1 + below / high)
    return below
