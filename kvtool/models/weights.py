"""From the files of a checkpoint to a model in which every parameter is accounted for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kvtool.errors import ModelError
from kvtool.models.checkpoint import Checkpoint
from kvtool.models.model_config import reason
from kvtool.models.source import ModelSource

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_log = logging.getLogger(__name__)


def load_weights(
    source: ModelSource, config: PretrainedConfig, dtype: torch.dtype
) -> PreTrainedModel:
    """The model on the CPU; raises `ModelError` when config and weights do not fit.

    The checkpoint decides which file a tensor comes from, so the loader is given tensors and not
    the folder. Attention is left at "eager", which every family has.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    model_class = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    with _tensors(source.checkpoint) as tensors:
        try:
            model, info = model_class.from_pretrained(
                None,
                config=config,
                state_dict=tensors,
                dtype=dtype,
                attn_implementation="eager",
                ignore_mismatched_sizes=True,  # refused below, by name
                output_loading_info=True,
            )
        except Exception as error:
            raise ModelError(f"{source.name} cannot be loaded: {reason(error)}") from error
    _check_complete(source, info)
    _warn_if_untied(source, model)
    return model


@contextlib.contextmanager
def _tensors(checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    """Each tensor as a slice of its file that is read when it is used."""
    with contextlib.ExitStack() as stack:
        files = {path: stack.enter_context(_open(path)) for path in checkpoint.files}
        yield {name: files[path].get_slice(name) for name, path in checkpoint.tensors.items()}


def _open(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} is damaged: {error}.", hint="Download or copy the file again."
        ) from error


def _check_complete(source: ModelSource, info: Mapping[str, Any]) -> None:
    for what in ("missing", "unexpected", "mismatched"):
        found = info[f"{what}_keys"]  # of a mismatch: name, stored shape, described shape
        if keys := sorted(key if isinstance(key, str) else key[0] for key in found):
            raise ModelError(
                f"{source.name}: {len(keys)} {what} parameters, first {', '.join(keys[:3])}.",
                hint="config.json and the weights do not belong together, or a file is missing.",
            )


def _warn_if_untied(source: ModelSource, model: PreTrainedModel) -> None:
    """The loader keeps two tensors apart that the config ties when their values differ."""
    inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
    if not getattr(model.config, "tie_word_embeddings", False) or outputs is None:
        return
    if outputs.weight is not inputs.weight:
        _log.warning(
            "%s ties its output head to the embeddings, but its weights hold a different head; "
            "the head in the weights is used.",
            source.name,
        )
