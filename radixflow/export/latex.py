"""booktabs tables: of runs, and of any DataFrame.

Escaped to plain ASCII, so that a table compiles in any document, whatever its input and font encodings:
accents become commands, and a sign that LaTeX's own fonts lack becomes its code point, `<U+4E2D>`.
(great_tables' LaTeX was tried: it has no numbered caption and no label, sets a font size of its own, and leaves
signs outside ASCII to fail in pdflatex.)
"""

from __future__ import annotations

import numbers
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MISSING = "--"

_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\char96{}",
    "'": "'",
    "-": "-",
    "\u00a0": "~",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "å": r"\aa{}",
    "Å": r"\AA{}",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
    "§": r"\S{}",
    "±": r"\ensuremath{\pm}",
    "×": r"\ensuremath{\times}",
    "÷": r"\ensuremath{\div}",
    "·": r"\ensuremath{\cdot}",
    "°": r"\ensuremath{^\circ}",
    "≤": r"\ensuremath{\leq}",
    "≥": r"\ensuremath{\geq}",
    "≠": r"\ensuremath{\neq}",
    "≈": r"\ensuremath{\approx}",
    "−": r"\ensuremath{-}",
    "→": r"\ensuremath{\rightarrow}",
    "←": r"\ensuremath{\leftarrow}",
    "∞": r"\ensuremath{\infty}",
    "µ": r"\ensuremath{\mu}",
}
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi - pi rho - sigma tau upsilon "
    "phi chi psi omega"
).split()
_SIGNS |= {chr(0x3B1 + k): rf"\ensuremath{{\{name}}}" for k, name in enumerate(_GREEK) if name != "-"}
_CAPITALS = {"Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma"}
_CAPITALS |= {"Φ": "Phi", "Ψ": "Psi", "Ω": "Omega"}
_SIGNS |= {sign: rf"\ensuremath{{\{name}}}" for sign, name in _CAPITALS.items()}
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}


def escape(text: str) -> str:
    """Text as LaTeX in plain ASCII that prints it in pdflatex, lualatex and xelatex alike."""
    return "".join(_sign(sign) for sign in unicodedata.normalize("NFC", text))


def _sign(sign: str) -> str:
    if sign in _SIGNS:
        return _SIGNS[sign]
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        base = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0])
        return rf"\{_ACCENTS[parts[1]]}{{{base}}}"
    return rf"\textless{{}}U+{ord(sign):04X}\textgreater{{}}"


def latex_table(
    frame: pd.DataFrame,
    caption: str = "",
    label: str = "",
    notes: Iterable[str] = (),
    digits: int | Mapping[Any, int] = 3,
    index: bool = True,
    totals: int = 0,
    blocks: bool = False,
    environment: str = "table",
    size: str = "",
) -> str:
    r"""A DataFrame as a `table` environment with booktabs rules, for `\input`. Needs `\usepackage{booktabs}`.

    Arguments: `frame` with one level of columns, or two, whose upper one becomes spanning headings; the index
    (of one level or more) goes first unless `index=False`, a repeated outer entry is left blank, and a rule
    parts the groups. `notes` are lines below the table. `digits` after the point for numbers that aren't whole,
    for all columns, by column, by upper heading, or by outer entry of the index. `totals` last rows stand below a
    rule. `blocks` sets the outer entries of an index of several levels as lines above their rows, which saves a
    column. `environment` is `table*` for a table over both columns of a page; `size`, such as `scriptsize`, sets the
    rows smaller and closer. Texts are escaped, None and NaN are `--`. Numbers are set to the right.
    Raises ValueError for more than two levels of columns.
    """
    import pandas as pd

    columns = list(frame.columns)
    spanned = isinstance(frame.columns, pd.MultiIndex)
    if spanned and frame.columns.nlevels != 2:
        raise ValueError(f"a table with {frame.columns.nlevels} levels of columns, expected one or two")
    levels = frame.index.nlevels if index else 0
    blocks = blocks and levels > 1
    stubs = levels - blocks
    names = ["" if name is None else str(name) for name in frame.index.names[blocks:]] if index else []
    numeric = [_is_numeric(frame.iloc[:, k]) for k in range(len(columns))]
    heads = [str(column[-1] if spanned else column) for column in columns]
    lines = [rf"\begin{{{environment}}}[tb]", r"\centering"]
    if caption:
        lines.append(r"\setlength{\belowcaptionskip}{4pt}")
        lines.append(rf"\caption{{{escape(caption)}}}")
    if label:
        lines.append(rf"\label{{{label}}}")
    if size:
        lines.append(rf"{{\{size}\setlength{{\tabcolsep}}{{3pt}}")
    lines += [rf"\begin{{tabular}}{{@{{}}{'l' * stubs}{''.join('r' if n else 'l' for n in numeric)}@{{}}}}"]
    lines.append(r"\toprule")
    if spanned:
        lines += _spanners([str(column[0]) for column in columns], stubs)
    lines += [_row([*map(escape, names), *map(escape, heads)]), r"\midrule"]
    before: tuple[Any, ...] = (None,) * levels
    for at, key in enumerate(frame.index):
        whole: tuple[Any, ...] = (key if isinstance(key, tuple) else (key,)) if index else ()
        begins = levels > 1 and (at == 0 or whole[:1] != before[:1])
        if totals and at == len(frame) - totals:
            lines.append(r"\midrule")
        elif at and begins:
            lines.append(r"\addlinespace")
        if blocks and begins:
            wide = stubs + len(columns)
            lines.append(rf"\multicolumn{{{wide}}}{{@{{}}l@{{}}}}{{\textit{{{_cell(whole[0], 3)}}}}} \\")
        own, above = whole[blocks:], before[blocks:]
        fresh = at == 0 or blocks and begins
        same = next((k for k in range(stubs) if fresh or own[k] != above[k]), stubs) if stubs > 1 else 0
        cells = ["" if k < same else _cell(value, 3) for k, value in enumerate(own)]
        for k, column in enumerate(columns):
            upper = column[0] if spanned else column
            cells.append(_cell(frame.iloc[at, k], _places(digits, column, upper, *whole[:1])))
        lines.append(_row(cells))
        before = whole
    lines += [r"\bottomrule", r"\end{tabular}" + ("}" if size else "")]
    for note in notes:
        lines.append(rf"\par\smallskip{{\footnotesize {escape(note)}}}")
    return "\n".join([*lines, rf"\end{{{environment}}}", ""])


def latex_document(tables: Iterable[str]) -> str:
    """Tables as a document that compiles by itself."""
    head = [r"\documentclass{article}", r"\usepackage{booktabs}", r"\usepackage[margin=2cm]{geometry}"]
    return "\n".join([*head, r"\begin{document}", *tables, r"\end{document}", ""])


def _places(digits: int | Mapping[Any, int], *names: Any) -> int:
    """Those of the first name that has any."""
    return digits if isinstance(digits, int) else next((digits[name] for name in names if name in digits), 3)


def _is_numeric(column: Any) -> bool:
    known = [value for value in column.tolist() if not _is_missing(value)]
    return all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in known)


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or isinstance(value, float) and value != value


def _spanners(groups: list[str], stubs: int) -> list[str]:
    """The upper headings, each over its columns, with a rule below."""
    cells, rules, at = [""] * stubs, [], 0
    while at < len(groups):
        end = at
        while end < len(groups) and groups[end] == groups[at]:
            end += 1
        cells.append(rf"\multicolumn{{{end - at}}}{{c}}{{{escape(groups[at])}}}")
        if groups[at]:
            rules.append(rf"\cmidrule(lr){{{stubs + at + 1}-{stubs + end}}}")
        at = end
    return [_row(cells), "".join(rules)]


def _row(cells: list[str]) -> str:
    # A bracket or a star after a line's end would be read as its option.
    return " & ".join(f"{{{cell[0]}}}{cell[1:]}" if cell[:1] in ("[", "*") else cell for cell in cells) + r" \\"


def _cell(value: Any, digits: int) -> str:
    if _is_missing(value):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return _minus(f"{int(value):,}")
    if isinstance(value, numbers.Real):
        return _minus(f"{float(value):,.{digits}f}")
    return escape(str(value))


def _minus(text: str) -> str:
    return rf"\ensuremath{{-}}{text[1:]}" if text.startswith("-") else text
