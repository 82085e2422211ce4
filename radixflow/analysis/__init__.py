"""What a trace means: pure functions of a `Trace`, without vLLM.

summarize, compare, diverge     runs in numbers, side by side
slots, waits, reuse, cost       the four sums that come out exactly
evictions, returns              who lost what to whom, and what was left on return
explain, explain_round, explain_trace
                                why, in words
"""

from __future__ import annotations

from radixflow.analysis.bound import Bound, lower_bound
from radixflow.analysis.causes import SLOT_CAUSES, WAIT_CAUSES
from radixflow.analysis.compare import Comparison, compare
from radixflow.analysis.cost import CostIdentity, CostRefused, HostCost, cost_identity, host_cost
from radixflow.analysis.diverge import Divergence, diverge
from radixflow.analysis.evictions import EvictionSummary, evictions, evictors, returns, summarize_evictions
from radixflow.analysis.explain import Explanation, explain
from radixflow.analysis.overview import RoundExplanation, TraceExplanation, explain_round, explain_trace
from radixflow.analysis.reuse import Missing, reuse
from radixflow.analysis.slots import Slots, slots
from radixflow.analysis.summary import Summary, summarize
from radixflow.analysis.waits import AccountingError, Ledger, WaitStretch, wait_of, waits, waits_by_cause

__all__ = [
    "SLOT_CAUSES",
    "WAIT_CAUSES",
    "AccountingError",
    "Bound",
    "Comparison",
    "CostIdentity",
    "CostRefused",
    "Divergence",
    "EvictionSummary",
    "Explanation",
    "HostCost",
    "Ledger",
    "Missing",
    "RoundExplanation",
    "Slots",
    "Summary",
    "TraceExplanation",
    "WaitStretch",
    "compare",
    "cost_identity",
    "diverge",
    "evictions",
    "evictors",
    "explain",
    "explain_round",
    "explain_trace",
    "host_cost",
    "lower_bound",
    "returns",
    "reuse",
    "slots",
    "summarize",
    "summarize_evictions",
    "wait_of",
    "waits",
    "waits_by_cause",
]
