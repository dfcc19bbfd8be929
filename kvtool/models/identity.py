"""Which KV belongs to a model: its namespace, from its files alone.

Nothing is loaded but config and tokenizer, so commands that only look at stored KV start fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kvtool.cache.namespace import Namespace
from kvtool.models.device import resolve_device, resolve_dtype
from kvtool.models.digest import Progress, config_digest
from kvtool.models.kv_layout import KV_LAYOUTS
from kvtool.models.model_config import read_config
from kvtool.models.quiet import quiet
from kvtool.models.rope_regime import rope_regime
from kvtool.models.source import resolve
from kvtool.models.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """namespace: what a run with the same options would keep its KV under.

    name: what reports call the model. vocab_size: token ids the model has. dtype: of weights and
    KV. config: as Transformers reads it.
    """

    namespace: Namespace
    tokenizer: Tokenizer
    name: str
    architecture: str
    vocab_size: int
    dtype: torch.dtype
    config: PretrainedConfig


def model_identity(
    name: str | None = None,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    block_size: int = 16,
    salt: str | None = None,
    deterministic: bool = False,
    reuse_scheme: str = "rotate",
    progress: Progress | None = None,
) -> ModelIdentity:
    """The options mean what they mean to the engine (`EngineConfig`).

    Raises `ModelError`, or `ConfigError` for the options. A model that the engine would refuse
    after loading its weights has an identity all the same; nothing is stored under it.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    target = resolve_device(device)
    precision = resolve_dtype(dtype, target)
    source = resolve(name, revision=revision, progress=progress)
    with quiet():
        config = read_config(source)
        tokenizer = load_tokenizer(source.path)
        architecture = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].__name__
    return ModelIdentity(
        namespace=kv_namespace(
            weights=source.weights_digest,
            config=config_digest(source.config),
            tokenizer=tokenizer.digest,
            architecture=architecture,
            rope_regime=rope_regime(config).name,
            dtype=precision,
            device=target,
            block_size=block_size,
            salt=salt,
            deterministic=deterministic,
            reuse_scheme=reuse_scheme,
        ),
        tokenizer=tokenizer,
        name=source.name,
        architecture=architecture,
        vocab_size=int(config.vocab_size),
        dtype=precision,
        config=config,
    )


def kv_namespace(
    *,
    weights: str,
    config: str,
    tokenizer: str,
    architecture: str,
    rope_regime: str,
    dtype: torch.dtype,
    device: torch.device,
    block_size: int,
    salt: str | None = None,
    deterministic: bool = False,
    reuse_scheme: str = "rotate",
) -> Namespace:
    """weights, config, tokenizer: digests. architecture: the model's class."""
    precision = str(dtype).removeprefix("torch.")
    return Namespace(
        weights=weights,
        architecture=f"{architecture} {config}",
        rope_regime=rope_regime,
        compute_dtype=precision,
        kv_dtype=precision,
        kv_layout=KV_LAYOUTS[reuse_scheme],
        block_size=block_size,
        tokenizer=tokenizer,
        salt=salt,
        implementation=_implementation(device) if deterministic else None,
    )


def _implementation(device: torch.device) -> str:
    placed = torch.empty(0, device=device).device  # "cuda" is the current one, "cuda:0"
    return f"torch {torch.__version__} on {placed}"
