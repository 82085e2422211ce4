"""What a scheduler is told: policy, eviction, trace file, probe. From vLLM's configuration or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from radixflow.scheduling.eviction import get_eviction
from radixflow.scheduling.policies import Policy, get_policy

ENVIRONMENT = {
    "policy": "RADIXFLOW_POLICY",
    "eviction": "RADIXFLOW_EVICTION",
    "trace": "RADIXFLOW_TRACE",
    "probe": "RADIXFLOW_PROBE",
    "max_bytes": "RADIXFLOW_TRACE_MAX_BYTES",
    "max_parts": "RADIXFLOW_TRACE_MAX_PARTS",
    "include_tokens": "RADIXFLOW_INCLUDE_TOKENS",
    "workload": "RADIXFLOW_WORKLOAD",
    "model": "RADIXFLOW_MODEL",
}
"""Each setting may also be given as `--additional-config '{"radixflow": {"policy": ...}}'`, which wins.
A trace path in there changes vLLM's compile-cache key, so prefer the variable for that one."""


SERVER_PROBE = 16
"""A server asks after avoidable slots in every 16th round, unless told otherwise: the probe looks at the
whole queue, which may be long. Simulated runs and `radixflow run` ask in every round."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One scheduler's settings."""

    policy: Policy
    trace: str | None = None
    """Trace file to write; None records nothing."""
    probe: int = 1
    """Ask after avoidable slots in every n-th round; 0 never."""
    max_bytes: int | None = None
    """Size at which a trace goes on in its next part."""
    max_parts: int | None = None
    include_tokens: bool = False
    workload: str | None = None
    model: str | None = None
    eviction: str = "lru"
    """`lru` (vLLM's own) or `rr` (rotating tails)."""


def read_settings(additional_config: Any, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings of a scheduler that vLLM constructs.

    Raises ValueError with one line that names the setting and what was expected.
    """
    given: dict[str, Any] = {
        name: environ[variable] for name, variable in ENVIRONMENT.items() if environ.get(variable)
    }
    where = {name: ENVIRONMENT[name] for name in given}
    section = additional_config.get("radixflow", {}) if isinstance(additional_config, Mapping) else {}
    if not isinstance(section, Mapping):
        raise ValueError(f'additional_config["radixflow"] is {section!r}: expected an object of settings')
    unknown = sorted(set(section) - {f.name for f in fields(Settings)})
    if unknown:
        raise ValueError(
            f'additional_config["radixflow"] has unknown {unknown[0]!r}: expected {", ".join(ENVIRONMENT)}'
        )
    given.update(section)
    where.update({name: f'additional_config["radixflow"]["{name}"]' for name in section})
    settings = Settings(policy=get_policy(str(given.pop("policy", "radixflow"))), probe=SERVER_PROBE)
    for name, value in given.items():
        settings = replace(settings, **{name: _parse(name, value, where[name])})
    return settings


def _parse(name: str, value: Any, where: str) -> Any:
    if name == "eviction":
        return get_eviction(str(value))
    if name in ("trace", "workload", "model"):
        return str(value)
    if name == "include_tokens":
        if str(value).lower() in ("1", "true", "yes", "0", "false", "no"):
            return str(value).lower() in ("1", "true", "yes")
        raise ValueError(f"{where} is {value!r}: expected true or false")
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ValueError(f"{where} is {value!r}: expected a whole number, 0 or more")
    return number
