"""A figure for print and for notebooks: drawn by matplotlib when it is shown or saved."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matplotlib.figure

WIDTHS: dict[str, float] = {"column": 3.33, "text": 7.0, "slide": 10.0}
"""Inches: a column and the text block of the usual two-column paper, and a slide."""

FORMATS = (".pdf", ".svg", ".png")

STYLE: dict[str, Any] = {
    # TrueType in PDF and outlines in SVG: nothing to install where the file is read.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "radixflow",
    "font.family": "DejaVu Sans",
    "font.size": 7.0,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "path.simplify": False,
}
"""matplotlib settings of every figure; `save(style=...)` names a style file that changes them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What `rf.figures.timeline`, `.tree` and `.compare` return. Displays itself in a notebook."""

    draw: Callable[[matplotlib.figure.Figure, str], None]
    """Draws on an empty matplotlib figure in a theme (`light` or `dark`)."""
    height: Callable[[float], float]
    """Inches high at a width in inches."""
    made_from: str
    """What the file says of its origin: the trace's id and the call."""

    def save(
        self,
        path: str | os.PathLike[str],
        width: str | float = "text",
        theme: str = "light",
        style: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write `.pdf` (fonts embedded), `.svg` or `.png`; the same figure gives the same bytes.

        Arguments: `width` in inches or a name in `WIDTHS`; `style` a matplotlib style file whose
        settings go before `STYLE`.
        Raises ValueError for another suffix, width or theme.
        """
        path = Path(path)
        if path.suffix.lower() not in FORMATS:
            raise ValueError(f"{path.name}: unknown figure format, expected one of {', '.join(FORMATS)}")
        path.write_bytes(self.render(path.suffix.lower()[1:], width, theme, style))
        return path

    def render(
        self,
        format: str,
        width: str | float = "text",
        theme: str = "light",
        style: str | os.PathLike[str] | None = None,
    ) -> bytes:
        """The file's bytes; arguments as for `save`, `format` one of `pdf`, `svg`, `png`."""
        import matplotlib
        import matplotlib.style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas

        from radixflow.figures.palette import THEMES

        if isinstance(width, str) and width not in WIDTHS:
            raise ValueError(f"width {width!r}: unknown, expected inches or one of {', '.join(WIDTHS)}")
        if theme not in THEMES:
            raise ValueError(f"theme {theme!r}: unknown, expected one of {', '.join(THEMES)}")
        inches = WIDTHS[width] if isinstance(width, str) else float(width)
        metadata: dict[str, dict[str, Any]] = {
            "svg": {"Date": None, "Creator": "radixflow", "Description": self.made_from},
            "pdf": {"CreationDate": None, "Creator": "radixflow", "Subject": self.made_from},
            "png": {"Software": "radixflow", "Description": self.made_from},
        }
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            if style is not None:
                matplotlib.style.use(os.fspath(style))
            figure = Canvas(figsize=(inches, self.height(inches)), facecolor=THEMES[theme]["panel"])
            FigureCanvasAgg(figure)
            self.draw(figure, theme)
            out = io.BytesIO()
            figure.savefig(out, format=format, dpi=220, metadata=metadata[format])
        return out.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # PNG and SVG show in every front end, nbconvert and code hosts included.
        return {
            "image/png": self.render("png"),
            "image/svg+xml": self.render("svg").decode("utf-8"),
            "text/plain": f"<Figure: {self.made_from}>",
        }
