"""A model in memory, its tokenizer, and what identifies both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.models.device import resolve_device, resolve_dtype
from kvtool.models.digest import Progress, config_digest
from kvtool.models.eos import eos_ids
from kvtool.models.model_config import read_config
from kvtool.models.quiet import quiet
from kvtool.models.source import resolve
from kvtool.models.tokenizer import Tokenizer, load_tokenizer
from kvtool.models.weights import load_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """eos_ids: the tokens at which a reply ends, from every place that names one."""

    model: PreTrainedModel
    tokenizer: Tokenizer
    name: str
    path: Path
    weights_digest: str
    config_digest: str
    eos_ids: frozenset[int]


def load_model(
    name: str | None = None,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    progress: Progress | None = None,
) -> LoadedModel:
    """Load what `source.resolve` finds; raises `ModelError`, or `ConfigError` for the options.

    `progress` gets a line about anything that takes long (a conversion, a download).
    """
    target = resolve_device(device)
    precision = resolve_dtype(dtype, target)
    source = resolve(name, revision=revision, progress=progress)
    with quiet():
        config = read_config(source)  # first: the tokenizer's loader reads it too, and says less
        tokenizer = load_tokenizer(source.path)
        model = load_weights(source, config, precision).to(target)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=source.name,
        path=source.path,
        weights_digest=source.weights_digest,
        config_digest=config_digest(source.config),
        eos_ids=eos_ids(source.path, source.config, tokenizer.eos_id),
    )
