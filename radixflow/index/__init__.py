"""One radix tree over the prefix caches of many models, engines and tenants.

KV from different weights can't be mixed, so what is unified is the index: who holds which prefix, with which
components ready. Nothing is shared by default: a prefix is known under a namespace, and only engines that were declared
to hold the same cache under it answer for it.
"""

from radixflow.index.namespace import CacheLayout, Namespace, Scope
from radixflow.index.prefix_index import IndexSize, Match, PrefixIndex
from radixflow.index.routing import Choice, Load, rank

__all__ = ["CacheLayout", "Choice", "IndexSize", "Load", "Match", "Namespace", "PrefixIndex", "Scope", "rank"]
