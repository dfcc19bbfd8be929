"""From the files of a checkpoint to a model in which every parameter is accounted for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from kvtool.errors import ModelError
from kvtool.models.checkpoint import Checkpoint
from kvtool.models.source import ModelSource

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_log = logging.getLogger(__name__)


def load_weights(source: ModelSource, dtype: torch.dtype) -> PreTrainedModel:
    """The model on the CPU; raises `ModelError` when config and weights do not fit.

    The checkpoint decides which file a tensor comes from, so the loader is given tensors and not
    the folder. Attention is left at "eager", which every family has.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    config = _read_config(source)
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
            reason = _first_line(error)
            raise ModelError(f"{source.name} cannot be loaded: {reason}") from error
    _check_complete(source, info)
    _warn_if_untied(source, model)
    return model


def _read_config(source: ModelSource) -> PretrainedConfig:
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    try:
        config = AutoConfig.from_pretrained(
            source.path, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        reason = _first_line(error)
        raise ModelError(f"{source.path / 'config.json'} is not usable: {reason}") from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(
            f"{source.name} is of type {config.model_type!r}, which is not a causal language model."
        )
    return config


@contextlib.contextmanager
def _tensors(checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    """Each tensor as a slice of its file that is read when it is used."""
    from safetensors import safe_open

    with contextlib.ExitStack() as stack:
        files = {p: stack.enter_context(safe_open(p, framework="pt")) for p in checkpoint.files}
        yield {name: files[path].get_slice(name) for name, path in checkpoint.tensors.items()}


def _check_complete(source: ModelSource, info: Mapping[str, Any]) -> None:
    for what in ("missing", "unexpected", "mismatched"):
        if keys := sorted(str(key) for key in info[f"{what}_keys"]):
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


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
