"""A fleet: several engines over one stream of requests, and who takes which."""

from radixflow.fleet.comparison import compare_routings
from radixflow.fleet.routers import ROUTINGS

__all__ = ["ROUTINGS", "compare_routings"]
