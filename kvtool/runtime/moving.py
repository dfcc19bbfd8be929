"""What a run needs to know of its model before it may move cached text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvtool.config import EngineConfig
from kvtool.runtime.cache_folder import cache_folder

if TYPE_CHECKING:
    from kvtool.cache.namespace import Namespace
    from kvtool.models.hf import PagedModel
    from kvtool.models.tokenizer import Tokenizer


class ModelFacts(NamedTuple):
    """Fields of `CacheConfig`."""

    bos_id: int | None = None
    delta_multiple: int = 1


def prepare_moving(
    config: EngineConfig,
    model: PagedModel,
    tokenizer: Tokenizer,
    namespace: Namespace,
    max_model_len: int | None = None,
) -> ModelFacts:
    """Nothing unless reuse is "shift". max_model_len: of the run, if less than the model's. Raises `ConfigError` without a passing record of the gate,
    unless the run does without; `ModelError` for a model whose keys cannot be moved."""
    if config.reuse != "shift":
        return ModelFacts()
    from kvtool.gate.check import check_gate
    from kvtool.gate.subject import subject_of
    from kvtool.models.selection import check_selectable
    from kvtool.models.shift_check import prepare_shift
    from kvtool.reuse.repair import parse_repair

    prepare_shift(model, config.reuse_scheme, num_positions=max_model_len)
    repair = parse_repair(config.repair)
    if repair.selects:
        check_selectable(model, repair.rule)
    if not config.ungated:
        folder = cache_folder(config.cache_dir)
        check_gate(folder, subject_of(namespace, config), config)
    assert model.layout is not None
    return ModelFacts(tokenizer.added_bos_id, model.layout.delta_multiple)
