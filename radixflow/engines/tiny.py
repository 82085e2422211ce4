"""Tiny random-weight models of four families, for the real engine without a GPU or a download.

A model here is a folder with a `config.json` and nothing else: vLLM reads the architecture from it and
makes the weights up (`load_format="dummy"`, or `radixflow.engines.random_weights`, which makes the
layers matter). There is no tokenizer: prompts are token ids.

The sizes are the smallest that vLLM's CPU kernels accept: the gated delta rule (GDN) wants 128 as the
head dimension of keys and values and bfloat16, CPU attention a head dimension that is a multiple of 32, and
Qwen3-Next at least one mixture-of-experts layer. The other families are float32, so that rounding
doesn't decide between two tokens.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

VOCAB_SIZE = 4096
MAX_POSITION_EMBEDDINGS = 8192
"""Tokens; a longer context is asked for with `hf_overrides={"max_position_embeddings": n}`."""

_GATED_DELTA_NET = {
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 1,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
}

_QWEN = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "max_position_embeddings": MAX_POSITION_EMBEDDINGS,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    "dtype": "bfloat16",
}

_CONFIGS: dict[str, dict[str, Any]] = {
    "tiny-nemotron-h": {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 6,
        "hybrid_override_pattern": "M*-M-M",
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "mlp_hidden_act": "relu2",
        "mamba_num_heads": 4,
        "mamba_head_dim": 32,
        "ssm_state_size": 32,
        "n_groups": 1,
        "conv_kernel": 4,
        "chunk_size": 64,
        "tie_word_embeddings": False,
        "max_position_embeddings": MAX_POSITION_EMBEDDINGS,
        "dtype": "float32",
    },
    "tiny-qwen3-next": {
        **_QWEN,
        **_GATED_DELTA_NET,
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [0, 1, 2],
    },
    "tiny-qwen3.5": {
        **_QWEN,
        **_GATED_DELTA_NET,
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "num_hidden_layers": 4,
        "mamba_ssm_dtype": "float32",
    },
    "tiny-qwen3": {
        **_QWEN,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "dtype": "float32",
    },
}


def list_tiny_models() -> list[str]:
    """The tiny models' names."""
    return list(_CONFIGS)


def is_tiny(model: str) -> bool:
    """Whether `model` names a tiny model. ValueError for a name of their kind that none has."""
    if model.startswith("tiny-") and model not in _CONFIGS and "/" not in model and not Path(model).exists():
        raise ValueError(f"unknown tiny model {model!r}: expected one of {', '.join(_CONFIGS)}")
    return model in _CONFIGS


def tiny_config(name: str) -> dict[str, Any]:
    """The model's `config.json`. Raises ValueError that names the known ones."""
    if not is_tiny(name):
        raise ValueError(f"unknown tiny model {name!r}: expected one of {', '.join(_CONFIGS)}")
    return json.loads(json.dumps(_CONFIGS[name]))


def tiny_model_path(name: str, cache_dir: Path | None = None) -> Path:
    """Folder with the model's `config.json`, written where it is missing or differs.

    `cache_dir` defaults to `radixflow/models` in the user's cache folder, and to the temporary folder
    where that can't be written. Several processes may ask at once: the file appears whole.
    """
    text = json.dumps(tiny_config(name), indent=1) + "\n"
    folders = [cache_dir] if cache_dir is not None else [_user_cache(), Path(tempfile.gettempdir())]
    for folder in folders:
        try:
            return _write_config(folder / "radixflow" / "models" / name, text)
        except OSError:
            if folder is folders[-1]:
                raise
    raise AssertionError("unreachable")


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _write_config(folder: Path, text: str) -> Path:
    path = folder / "config.json"
    if not path.is_file() or path.read_text() != text:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".config-")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    return folder
