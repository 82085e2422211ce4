#!/usr/bin/env bash
# See that there is a LaTeX with booktabs for the export tests, and poppler to look at PDFs with. Never fails: without
# them those tests are skipped by name.
set -euo pipefail

ready() { command -v pdflatex >/dev/null && kpsewhich booktabs.sty >/dev/null && command -v pdftotext >/dev/null; }

if ready; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "No LaTeX here, and no way to install one without asking: tests that compile tables will be skipped"
    exit 0
fi

echo "Installing LaTeX for the export tests"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
options=(-o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)
packages=(texlive-latex-base texlive-latex-recommended poppler-utils)
if { apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --no-install-recommends "${packages[@]}"; } \
    >"$log" 2>&1 </dev/null; then
    rm -f "$log"
else
    tail -n 3 "$log"
    echo "LaTeX can't be installed: tests that compile tables will be skipped (the whole output is in $log)"
fi
