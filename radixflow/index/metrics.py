"""Prometheus metrics of an index and its feeds.

    radixflow_index_nodes{model, tenant}                blocks known
    radixflow_index_held_blocks{model, tenant, engine}  blocks of which an engine holds something
    radixflow_index_duplicated_blocks{model, tenant}    copies beyond the first
    radixflow_index_bytes{model, tenant, engine}        the same in bytes, where a block's size was given
    radixflow_index_duplicated_bytes{model, tenant}
    radixflow_index_lookups_total{model}                questions
    radixflow_index_hits_total{model}                   of them: some engine could resume from more than nothing
    radixflow_index_asked_tokens_total{model}           tokens asked for
    radixflow_index_matched_tokens_total{model}         of them, matched by the engine that matched most (h^)
    radixflow_index_ready_tokens_total{model}           of them, ready in the engine that had most ready (h)
    radixflow_index_lookup_seconds{quantile}            of the latest look-ups
    radixflow_index_feed_connected{engine}              1 where the engine's socket is there
    radixflow_index_feed_{gaps,losses,restarts,faults}_total{engine}

They name tenants, so they are for whoever runs the index, not for who asks it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from radixflow.index.feed import EngineFeed
from radixflow.index.namespace import Namespace
from radixflow.index.prefix_index import Match, PrefixIndex

_LATEST = 10_000
"""Look-ups that the quantiles speak of."""


class MeasuredIndex(PrefixIndex):
    """A `PrefixIndex` that counts its look-ups."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        """Model -> lookups, hits, asked, matched, ready (the last three in tokens)."""
        self.taken: deque[int] = deque(maxlen=_LATEST)
        """Nanoseconds of the latest look-ups."""
        self._counting = Lock()

    def longest_match(self, tokens: Sequence[int], namespace: Namespace) -> dict[str, Match]:
        began = time.perf_counter_ns()
        matches = super().longest_match(tokens, namespace)
        taken = time.perf_counter_ns() - began
        ready = max((match.ready for match in matches.values()), default=0)
        matched = max((match.matched for match in matches.values()), default=0)
        with self._counting:
            self.taken.append(taken)
            self.counts[namespace.model].update(
                lookups=1, hits=ready > 0, asked=len(tokens), matched=matched, ready=ready
            )
        return matches


class IndexCollector(Collector):
    """Reads the index at the moment it is asked. block_bytes: model -> bytes of a block in all its groups."""

    def __init__(
        self, index: MeasuredIndex, feeds: Sequence[EngineFeed] = (), block_bytes: Mapping[str, int] | None = None
    ) -> None:
        self._index = index
        self._feeds = feeds
        self._block_bytes = block_bytes or {}

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._sizes()
        yield from self._lookups()
        yield from self._feed_states()

    def _sizes(self) -> Iterator[Metric]:
        of = ["model", "tenant"]
        nodes = GaugeMetricFamily("radixflow_index_nodes", "Blocks known.", labels=of)
        held = GaugeMetricFamily("radixflow_index_held_blocks", "Blocks held.", labels=[*of, "engine"])
        copies = GaugeMetricFamily("radixflow_index_duplicated_blocks", "Copies beyond the first.", labels=of)
        held_bytes = GaugeMetricFamily("radixflow_index_bytes", "Bytes held.", labels=[*of, "engine"])
        copied = GaugeMetricFamily("radixflow_index_duplicated_bytes", "Bytes of further copies.", labels=of)
        totals: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        by_engine: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for namespace, size in self._index.sizes().items():
            key = (namespace.model, namespace.tenant)
            totals[key].update(nodes=size.nodes, copies=size.duplicated)
            by_engine[key].update(size.held)
        for key, total in totals.items():
            each = self._block_bytes.get(key[0])
            nodes.add_metric(key, total["nodes"])
            copies.add_metric(key, total["copies"])
            if each is not None:
                copied.add_metric(key, total["copies"] * each)
            for engine, blocks in by_engine[key].items():
                held.add_metric([*key, engine], blocks)
                if each is not None:
                    held_bytes.add_metric([*key, engine], blocks * each)
        yield from (nodes, held, copies, held_bytes, copied)

    def _lookups(self) -> Iterator[Metric]:
        meanings = {
            "lookups": "Questions.",
            "hits": "Questions to which some engine could resume from more than nothing.",
            "asked": "Tokens asked for.",
            "matched": "Tokens matched by the engine that matched most.",
            "ready": "Tokens ready in the engine that had most ready.",
        }
        for name, meaning in meanings.items():
            unit = "_tokens" if name in ("asked", "matched", "ready") else ""
            family = CounterMetricFamily(f"radixflow_index_{name}{unit}", meaning, labels=["model"])
            for model, counts in list(self._index.counts.items()):
                family.add_metric([model], counts[name])
            yield family
        taken = sorted(self._index.taken)
        seconds = GaugeMetricFamily("radixflow_index_lookup_seconds", "Time of a look-up.", labels=["quantile"])
        for quantile in (0.5, 0.99):
            if taken:
                seconds.add_metric([str(quantile)], taken[int(quantile * (len(taken) - 1))] / 1e9)
        yield seconds

    def _feed_states(self) -> Iterator[Metric]:
        connected = GaugeMetricFamily(
            "radixflow_index_feed_connected", "Whether the engine is there.", labels=["engine"]
        )
        for feed in self._feeds:
            connected.add_metric([feed.engine], feed.state.connected)
        yield connected
        for name in ("gaps", "losses", "restarts", "faults"):
            family = CounterMetricFamily(f"radixflow_index_feed_{name}", f"A feed's {name}.", labels=["engine"])
            for feed in self._feeds:
                family.add_metric([feed.engine], getattr(feed.state, name))
            yield family
