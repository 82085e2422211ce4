"""Findings: kinds of fault, each recognised by its mechanism. `docs/findings.md` defines every code."""

from __future__ import annotations

from radixflow.analysis.findings import events, fairness, preemption, progress, publication, reuse, scan
from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import Finding

FINDERS = (progress, scan, fairness, reuse, preemption, publication, events)
"""Modules with `CODES` and `find(evidence)`, in the order in which their findings are reported."""

CODES = tuple(code for finder in FINDERS for code in finder.CODES)
"""Every code there is."""

__all__ = ["CODES", "FINDERS", "Evidence", "Finding"]
