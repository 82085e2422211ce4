"""The fragmentation extension's look-ahead: quick, and the same answer as the slow one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("vllm")

from scheduling_cases import watch, workloads  # noqa: E402

from radixflow.scheduling.v0_29.traversal import Traversal  # noqa: E402


def asks_everybody(traversal, request):
    """The definition: does any later request fit uncut?"""
    return any(traversal._fits_uncut(other) for other in traversal._later_than(request))


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(workloads())
def test_the_short_cuts_decide_as_asking_everybody_would(workload):
    quick = watch(workload, "radixflow+frag").batches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Traversal, "_another_fits", asks_everybody)
        patch.setattr(Traversal, "_surely_cut", lambda traversal, request: False)
        slow = watch(workload, "radixflow+frag").batches
    assert quick == slow
