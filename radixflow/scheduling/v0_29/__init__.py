"""Everything that is bound to vLLM 0.29's private names, and nothing else."""

from radixflow.scheduling.v0_29.describe import describe_config
from radixflow.scheduling.v0_29.seams import RadixFlowScheduler

__all__ = ["RadixFlowScheduler", "describe_config"]
