"""Models that cannot run on paged KV are refused by name, with the reason, when loaded."""

from typing import Any

import pytest
import tiny
import torch
from transformers import Cache, LlamaForCausalLM

from kvtool.errors import ModelError
from kvtool.models.hf import PagedModel


@pytest.mark.parametrize("name", tiny.REFUSED)
def test_refused_families(name: str) -> None:
    model = tiny.build(name)
    with pytest.raises(ModelError) as refusal:
        PagedModel(model)
    reason = tiny.REFUSED[name][2]
    assert refusal.value.message.startswith(f"{type(model).__name__} cannot run on paged KV: ")
    assert reason in refusal.value.message
    assert refusal.value.hint is not None


def test_a_refused_model_still_runs_by_itself() -> None:
    model = tiny.build("jetmoe")
    tokens = torch.tensor([[5, 6, 7]])
    before = model(input_ids=tokens).logits
    with pytest.raises(ModelError):
        PagedModel(model)
    assert torch.equal(model(input_ids=tokens).logits, before)


class CountsItsCache(LlamaForCausalLM):  # type: ignore[misc]
    """Scales its logits by the number of tokens in the cache, which pages do not tell."""

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool = False,
        logits_to_keep: int | torch.Tensor = 0,
    ) -> Any:
        out = super().forward(
            input_ids, None, position_ids, cache, use_cache=use_cache, logits_to_keep=logits_to_keep
        )
        seen = 0 if cache is None else cache.get_seq_length()
        out.logits = out.logits * (seen + input_ids.shape[1])
        return out


def test_a_model_that_counts_its_cache_is_refused() -> None:
    model = tiny.build("llama")
    model.__class__ = CountsItsCache
    with pytest.raises(ModelError, match=r"CountsItsCache .* differ from its own forward by"):
        PagedModel(model)


def test_damaged_weights_are_named() -> None:
    model = tiny.build("llama")
    model.model.layers[1].mlp.up_proj.weight.data[3, 3] = float("nan")
    with pytest.raises(ModelError, match=r"NaN or infinite: its parameter .*layers\.1\.mlp\.up"):
        PagedModel(model)


def test_settings_that_make_no_numbers_are_told_from_weights() -> None:
    model = tiny.build("llama")
    model.set_attn_implementation("eager")  # as it is loaded
    model.model.rotary_emb.inv_freq.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN or infinite: its weights are finite") as refusal:
        PagedModel(model)
    assert "Choose a decoder" not in (refusal.value.hint or "")


@pytest.mark.parametrize("name", ["gpt_oss", "llama/bias"])
def test_tiny_models_depend_on_their_seed_alone(name: str) -> None:
    one = tiny.build(name).state_dict()
    torch.rand(7)
    two = tiny.build(name).state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_a_crash_in_model_code_names_the_model() -> None:
    model = tiny.build("llama")
    model.model.layers[2].mlp.forward = lambda _: 1 / 0
    with pytest.raises(ModelError, match=r"LlamaForCausalLM .* failed with ZeroDivisionError"):
        PagedModel(model)


def test_a_dtype_without_blocks_is_refused() -> None:
    model = tiny.build("llama", dtype=torch.float64)
    with pytest.raises(ModelError, match="keeps its KV as float64; allowed: float32, bfloat16"):
        PagedModel(model)


def test_the_check_leaves_no_pools() -> None:
    paged = PagedModel(tiny.build("llama"))
    assert paged.pools == ()
