"""Layer 0 tells a good move from a wrong one, at the cost of one projection."""

import math

import pytest
import tiny
import torch
from paged_run import Feed, PagedRun

from kvtool.models.first_layer import (
    LIMIT,
    first_layer_error,
    fresh_first_layer_keys,
    stored_first_layer_keys,
    unchecked_reason,
)
from kvtool.models.hf import PagedModel
from kvtool.models.layout import LayerLayout, Layout
from kvtool.models.layout_probe import probe_layout
from kvtool_kernels import Rotary, rotate, unit_rotation

UNMOVABLE = ("gpt2", "gpt_bigcode", "opt", "hunyuan_v1_dense")
MOVABLE = [name for name in tiny.SUPPORTED if name not in UNMOVABLE]
TOKENS = torch.tensor([(31 * i + 9) % 120 + 3 for i in range(40)])
ROUNDED = (  # one a kind of rotation
    *(
        "llama",
        "llama/linear",
        "llama/yarn",
        "llama/longrope",
        "llama/llama3",
        "gemma3_text/linear",
    ),
    *("cohere", "glm4", "gpt_neox", "gptj", "nanochat", "smollm3", "deepseek_v2", "deepseek_v3"),
)
LENGTH = 2048
# Relative L2 over a run. The worst of its rows and heads may be five times that.
EXACT = {torch.float32: 1e-5, torch.bfloat16: 5e-3}


def build(name: str, dtype: torch.dtype = torch.float32, **settings: object) -> PagedModel:
    """With room to move by 1000; frequencies stay float32 as in a model loaded in 16 bits."""
    length = "n_positions" if name in ("gptj", "codegen") else "max_position_embeddings"
    model = tiny.build(name, **{length: LENGTH, **settings})
    frequencies = [item for item in model.named_buffers() if item[0].endswith("inv_freq")]
    model.to(dtype)
    for path, inv_freq in frequencies:
        owner, _, leaf = path.rpartition(".")
        setattr(model.get_submodule(owner), leaf, inv_freq)
    return PagedModel(model, check=False)


def first_layer(paged: PagedModel) -> Rotary:
    layer = probe_layout(paged).layers[0]
    assert isinstance(layer, Rotary)
    return layer


def keys_at(paged: PagedModel, first: int) -> torch.Tensor:
    positions = torch.arange(first, first + len(TOKENS))
    return fresh_first_layer_keys(paged, TOKENS, positions).clone()


def distance(fresh: torch.Tensor, stored: torch.Tensor, rotary: Rotary, delta: int) -> float:
    """Relative L2 over the run."""
    turned = rotate(stored, *unit_rotation(torch.tensor(delta), rotary.inv_freq), rotary)
    return float((turned - fresh).norm() / fresh.norm())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in MOVABLE] + [(name, torch.bfloat16) for name in ROUNDED],
)
def test_a_right_move_is_exact_and_one_off_by_one_is_caught(name: str, dtype: torch.dtype) -> None:
    paged = build(name, dtype)
    rotary = first_layer(paged)
    # longrope changes its frequencies at 64 tokens
    home, deltas = (12, (1, -1, 8)) if "longrope" in name else (1002, (1, -1, 16, 1000, -1000))
    stored = keys_at(paged, home)
    for delta in deltas:
        fresh = keys_at(paged, home + delta)
        assert distance(fresh, stored, rotary, delta) <= EXACT[dtype], delta
        assert first_layer_error(fresh, stored, rotary, delta) <= 5 * EXACT[dtype], delta
        for wrong in (delta - 1, delta + 1):
            assert first_layer_error(fresh, stored, rotary, wrong) > 2 * LIMIT, (delta, wrong)


@pytest.mark.parametrize("name", ["llama", "cohere", "glm4", "deepseek_v2", "gemma3_text", "opt"])
def test_fresh_keys_are_what_the_engine_stores(name: str) -> None:
    run = PagedRun(tiny.build(name), check=False)
    table = run.table(12)
    run.step(Feed(TOKENS[:12].tolist(), table, 0, 12))
    stored = stored_first_layer_keys(run.paged, torch.tensor(table.slots()))
    fresh = fresh_first_layer_keys(run.paged, TOKENS[:12], torch.arange(12))
    torch.testing.assert_close(stored, fresh, atol=1e-6, rtol=1e-6)


def test_one_block_that_stood_elsewhere_is_caught() -> None:
    paged = build("llama")
    stored, fresh = keys_at(paged, 100), keys_at(paged, 400)
    stored[16:32] = keys_at(paged, 101)[16:32]
    assert first_layer_error(fresh, stored, first_layer(paged), 300) > 2 * LIMIT


def test_one_other_token_is_caught() -> None:
    paged = build("deepseek_v3")
    stored, fresh = keys_at(paged, 100), keys_at(paged, 400)
    stored[7] = stored[8]
    assert first_layer_error(fresh, stored, first_layer(paged), 300) > 2 * LIMIT


def test_large_biases_on_slow_pairs_do_not_hide_a_wrong_delta() -> None:
    """Qwen2's layer 0 has key biases near 90; beside them a fast pair is 1 % of a row."""
    paged = build("qwen2")
    with torch.no_grad():
        bias = paged.model.model.layers[0].self_attn.k_proj.bias.view(2, 16)
        bias[:, [6, 14, 7, 15]] = 90.0
    stored, fresh, rotary = keys_at(paged, 100), keys_at(paged, 400), first_layer(paged)
    assert first_layer_error(fresh, stored, rotary, 300) <= 1e-5
    assert first_layer_error(fresh, stored, rotary, 301) > 2 * LIMIT


@pytest.mark.parametrize("storage", ["int8", "fp8"])
@pytest.mark.parametrize("name", ["llama", "glm4", "gpt_neox", "deepseek_v3"])
def test_quantised_keys_pass(name: str, storage: str) -> None:
    paged = build(name)
    stored, fresh, rotary = keys_at(paged, 1004), keys_at(paged, 4), first_layer(paged)
    largest = stored.abs().amax(-1, keepdim=True)
    if storage == "fp8":
        stored = (stored / largest * 448).to(torch.float8_e4m3fn).float() * largest / 448
    else:
        stored = (stored / largest * 127).round() * largest / 127
    assert first_layer_error(fresh, stored, rotary, -1000) < LIMIT
    assert first_layer_error(fresh, stored, rotary, -999) > 2 * LIMIT


def test_keys_that_were_never_written_are_no_match() -> None:
    paged = build("llama")
    fresh = keys_at(paged, 0)
    nothing = torch.full_like(fresh, math.nan)
    assert first_layer_error(fresh, nothing, first_layer(paged), 3) == math.inf


TURNED = Rotary(torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize(
    ("layers", "checked"),
    [
        ((TURNED, None), True),
        ((None, None), True),  # positions do not enter any key
        ((None, TURNED), False),
    ],
)
def test_a_first_layer_without_rotation_cannot_vouch_for_others(
    layers: tuple[LayerLayout, ...], checked: bool
) -> None:
    assert (unchecked_reason(Layout(layers)) is None) == checked


def test_a_model_whose_first_layer_has_no_rotation() -> None:
    paged = build("smollm3", no_rope_layers=[0, 1, 1, 1])
    layout = probe_layout(paged)
    assert layout.reason is None
    reason = unchecked_reason(layout)
    assert reason is not None and reason.startswith("layer 0 does not turn its keys")
    stored, fresh = keys_at(paged, 100), keys_at(paged, 400)
    assert first_layer_error(fresh, stored, None, 77) <= 1e-6  # the same at every position
    assert first_layer_error(fresh, stored.roll(1, 0), None, 300) > 2 * LIMIT  # other tokens


def test_no_other_layer_and_no_attention_is_computed() -> None:
    paged = build("llama")
    called: list[str] = []
    for name, module in paged.model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: called.append(name))
    keys_at(paged, 5)
    assert not [name for name in called if "lm_head" in name or "mlp" in name or "o_proj" in name]
    assert {name for name in called if ".layers." in name} == {
        "model.layers.0",
        "model.layers.0.input_layernorm",
        "model.layers.0.self_attn",
        "model.layers.0.self_attn.q_proj",
        "model.layers.0.self_attn.k_proj",
        "model.layers.0.self_attn.v_proj",
    }


def test_the_model_is_left_as_it_was() -> None:
    paged = build("gemma3_text")
    before = paged.model(input_ids=TOKENS[None]).logits
    keys_at(paged, 5)
    assert torch.equal(paged.model(input_ids=TOKENS[None]).logits, before)
