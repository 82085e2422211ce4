"""A fleet: several engines over one stream of requests, and who takes which."""

from radixflow.fleet.comparison import ROUTINGS, compare_routings

__all__ = ["ROUTINGS", "compare_routings"]
