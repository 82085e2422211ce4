"""Properties: what must be true of every round of a sound run (RadixFlow's propositions, and the books)."""

from __future__ import annotations

from radixflow.analysis.properties.bubbles import Monotonicity, NoAvoidableBubble
from radixflow.analysis.properties.committed import CommittedBeforeRead
from radixflow.analysis.properties.feasible import Feasible
from radixflow.analysis.properties.property import Property
from radixflow.analysis.properties.scan import ContainsNative, NativeOrder
from radixflow.analysis.properties.sums import Sums

PROPERTIES = (
    Feasible,
    ContainsNative,
    NoAvoidableBubble,
    Monotonicity,
    NativeOrder,
    CommittedBeforeRead,
    Sums,
)
"""In the order in which they are reported."""

NAMES = tuple(one.name for one in PROPERTIES)

PROMISES = {one.name: one.promise for one in PROPERTIES}
"""What each says, in a sentence."""

__all__ = ["NAMES", "PROMISES", "PROPERTIES", "Property"]
