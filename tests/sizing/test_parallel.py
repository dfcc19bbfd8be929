"""Ranks: division, replication, stages, and the splits that are refused."""

from __future__ import annotations

import pytest
from sizing.published import spec

from kvtool.errors import ConfigError
from kvtool.sizing.calculate import calculate
from kvtool.sizing.from_flags import ModelFlags, model_spec
from kvtool.sizing.parallel import Ranks, stages
from kvtool.sizing.request import SizeRequest


@pytest.mark.parametrize(("tp", "share"), [(1, 1), (2, 2), (8, 8), (16, 8), (64, 8)])
def test_kv_heads_are_divided_then_replicated(tp: int, share: int) -> None:
    """Bytes on a rank stop falling at one KV head; the cluster then holds copies."""
    report = calculate(spec("Llama-3.1-70B"), SizeRequest(tp=tp))
    assert report.per_rank.bytes * share == report.bytes
    assert report.per_rank.all_ranks_bytes == report.bytes * tp // share


@pytest.mark.parametrize(("layers", "pp", "sizes"), [(10, 4, [2, 3, 3, 2]), (9, 4, [2, 2, 3, 2])])
def test_pipeline_stages_are_vllms(layers: int, pp: int, sizes: list[int]) -> None:
    found = stages(model_spec(ModelFlags(layers=layers)), Ranks(pp=pp))
    assert [len(specs[0].layers) for specs in found] == sizes


def test_draft_layers_stand_on_the_last_stage() -> None:
    first, last = stages(spec("DeepSeek-V3"), Ranks(pp=2))
    assert not any(s.cache.draft for s in first)
    assert [len(s.layers) for s in last] == [30, 1]


def test_context_ranks_divide_tokens() -> None:
    model = model_spec(ModelFlags(layers=4, kv_heads=8))
    report = calculate(model, SizeRequest(tokens=1001, cp=4, memory=2**30))
    one = calculate(model, SizeRequest(tokens=251, memory=2**30))
    assert report.per_rank.bytes == one.bytes
    assert report.max_tokens == 4 * one.max_tokens


@pytest.mark.parametrize(
    ("name", "ranks", "says"),
    [
        ("Llama-3.1-8B", {"tp": 3}, "--tp 3 does not divide 32 attention heads"),
        ("falcon-7b", {"tp": 2}, "--tp 2 does not divide 71 attention heads"),
        ("Llama-3.1-8B", {"pp": 33}, "--pp 33 is more than the 32 layers"),
        ("gemma-3-1b", {"cp": 2}, "this model has windowed layers"),
        ("Qwen3-Next", {"cp": 2}, "this model has state layers"),
    ],
)
def test_splits_that_cannot_be_are_refused(name: str, ranks: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        calculate(spec(name), SizeRequest(**ranks))
    assert says in refused.value.message
