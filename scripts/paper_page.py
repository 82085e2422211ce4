"""Put an experiment's results into docs/paper.md: python scripts/paper_page.py OUT

OUT is the folder of `radixflow paper -o OUT` and, for the plot of its sensitivity, `--sensitivity all`. What stands
between the markers of the page is replaced by OUT/report.md and by the table of the frozen round costs, the pictures by
OUT's; the discussion stays as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from radixflow.paper.page import costs_table
from radixflow.paper.report import round_costs

PAGE = Path(__file__).parent.parent / "docs" / "paper.md"
PICTURES = {
    "figures/figure3-latency.svg": "paper-figure3.svg",
    "figures/figure4-rounds.svg": "paper-figure4.svg",
    "sensitivity.svg": "paper-sensitivity.svg",
}


def main() -> None:
    if len(sys.argv) != 2 or not (report := Path(sys.argv[1]) / "report.md").is_file():
        sys.exit("expected one argument, the folder of a finished `radixflow paper -o FOLDER`")
    page = PAGE.read_text(encoding="utf-8")
    for name, text in (("results", report.read_text(encoding="utf-8")), ("costs", costs_table(round_costs()))):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        page, found = re.subn(
            f"{begin}.*?{end}", lambda _, b=begin, e=end, t=text: f"{b}\n\n{t.strip()}\n\n{e}", page, flags=re.S
        )
        if not found:
            sys.exit(f"{PAGE}: no {begin} ... {end}")
    PAGE.write_text(page, encoding="utf-8")
    for made, shown in PICTURES.items():
        if (picture := Path(sys.argv[1]) / made).is_file():
            shutil.copyfile(picture, PAGE.parent / "images" / shown)


if __name__ == "__main__":
    main()
