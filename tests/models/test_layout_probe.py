"""The probed layout is what the keys really do: moved keys equal keys computed in place."""

import math
from typing import NamedTuple

import pytest
import tiny
import torch
from paged_run import Feed, PagedRun, Table
from transformers import DynamicCache, PreTrainedModel

from kvtool.models.hf import PagedModel
from kvtool.models.layout import LayerLayout, Layout, Unknown
from kvtool.models.layout_probe import probe_layout
from kvtool_kernels import Rotary, rope_shift, rotate, unit_rotation

DELTA = 40  # a multiple of the chunk; 40 + 15 stays inside longrope's 64
PROMPT = [(31 * i + 9) % 120 + 3 for i in range(12)]
QUESTION = [60, 61, 62]


class Place(NamedTuple):
    """Where a layer's rotation sits in the head."""

    pairing: str  # "half" | "interleaved"
    width: int
    start: int


FULL = Place("half", 16, 0)
FULL_INTERLEAVED = Place("interleaved", 16, 0)
NOPE = None
PLACES: dict[str, list[Place | None]] = {
    "cohere": [FULL_INTERLEAVED] * 4,
    "cohere2": [FULL_INTERLEAVED] * 3 + [NOPE],
    "ernie4_5": [FULL_INTERLEAVED] * 4,
    "helium": [FULL_INTERLEAVED] * 4,
    "llama4_text": [FULL_INTERLEAVED] * 3 + [NOPE],
    "smollm3": [FULL] * 3 + [NOPE],
    "exaone4": [FULL] * 3 + [NOPE],
    "gpt_neox": [Place("half", 4, 0)] * 4,
    "stablelm": [Place("half", 4, 0)] * 4,
    "phi": [Place("half", 8, 0)] * 4,
    "persimmon": [Place("half", 8, 0)] * 4,
    "nemotron": [Place("half", 8, 0)] * 4,
    "glm4_moe": [Place("half", 8, 0)] * 4,
    "glm": [Place("interleaved", 8, 0)] * 4,
    "glm4": [Place("interleaved", 8, 0)] * 4,
    "gptj": [Place("interleaved", 8, 0)] * 4,
    "codegen": [Place("interleaved", 8, 0)] * 4,
    "deepseek_v2": [Place("interleaved", 8, 16)] * 4,
    "deepseek_v3": [Place("half", 8, 16)] * 4,
    "glm4_moe_lite": [Place("half", 8, 16)] * 4,
    "minicpm3": [Place("half", 8, 16)] * 4,
}
UNMOVABLE = {
    "gpt2": "V depends on the position (learned absolute positions)",
    "gpt_bigcode": "V depends on the position (learned absolute positions)",
    "opt": "V depends on the position (learned absolute positions)",
    # It scales each key dimension after the rotation, which a rotation does not commute with.
    "hunyuan_v1_dense": "no known rotation explains its keys",
}
# Llama-4 scales queries by position, so a shift of everything changes deeper layers as well.
WITHOUT_TEMPERATURE = {"llama4_text": {"attn_temperature_tuning": False}}
MOVABLE = [name for name in tiny.SUPPORTED if name not in UNMOVABLE]


def place(layer: LayerLayout) -> Place | None:
    assert not isinstance(layer, Unknown), layer
    if layer is None:
        return None
    return Place(
        "interleaved" if layer.interleaved else "half", 2 * len(layer.inv_freq), layer.start
    )


@pytest.mark.parametrize("name", MOVABLE)
def test_layout(name: str) -> None:
    paged = PagedModel(tiny.build(name), check=False)
    layout = probe_layout(paged)
    assert layout.reason is None
    assert [place(layer) for layer in layout.layers] == PLACES.get(name, [FULL] * len(paged.layers))
    assert layout.delta_multiple == (8 if name == "llama4_text" else 1)


@pytest.mark.parametrize("name", UNMOVABLE)
def test_a_model_whose_keys_cannot_be_moved_says_why(name: str) -> None:
    layout = probe_layout(PagedModel(tiny.build(name), check=False))
    assert layout.reason is not None
    assert layout.reason.startswith(f"layer 0: {UNMOVABLE[name]}")


@pytest.mark.parametrize("name", ["llama", "glm4", "smollm3", "gemma3_text", "deepseek_v2", "gptj"])
def test_rounding_does_not_hide_the_layout(name: str) -> None:
    exact = probe_layout(PagedModel(tiny.build(name), check=False))
    rounded = probe_layout(PagedModel(tiny.build(name, dtype=torch.bfloat16), check=False))
    assert rounded.reason is None
    assert list(map(place, rounded.layers)) == list(map(place, exact.layers))


@pytest.mark.report("S19")
def test_each_layer_has_its_own_theta() -> None:
    layout = probe_layout(PagedModel(tiny.build("gemma3_text/linear"), check=False))
    steps = torch.arange(8, dtype=torch.float64) / 8
    local, distant = 10000.0**-steps, 1_000_000.0**-steps / 8  # linear scaling by 8
    for index, layer in enumerate(layout.layers):
        assert isinstance(layer, Rotary)
        expected = distant if index == 5 else local
        torch.testing.assert_close(layer.inv_freq, expected, atol=0, rtol=1e-6)


def stored_by_transformers(model: PreTrainedModel, first: int) -> list[torch.Tensor]:
    """Keys of PROMPT at positions from `first` on, as the model's own cache holds them.

    One a layer: [heads, 12, dim]; MLA: latent and rotated row together.
    """
    cache = DynamicCache()
    positions = torch.arange(first, first + len(PROMPT))
    with torch.inference_mode():
        model(input_ids=torch.tensor([PROMPT]), position_ids=positions[None], cache=cache)
    is_latent = cache.layers[0].keys.shape[-1] != cache.layers[0].values.shape[-1]
    parts = ((layer.keys, layer.values) if is_latent else (layer.keys,) for layer in cache.layers)
    return [torch.cat(part, dim=-1)[0] for part in parts]


@pytest.mark.report("S21")  # YaRN's magnitude is in the key already: the move keeps the norm
@pytest.mark.parametrize("name", MOVABLE)
def test_moved_keys_equal_keys_computed_in_place(name: str) -> None:
    """Of every layer, by the model's own cache and forward; nothing of the probe is reused."""
    model = tiny.build(name, **WITHOUT_TEMPERATURE.get(name, {}))
    layout = probe_layout(PagedModel(model, check=False))
    home, target = stored_by_transformers(model, 0), stored_by_transformers(model, DELTA)
    for rotary, source, expected in zip(layout.layers, home, target, strict=True):
        assert not isinstance(rotary, Unknown)
        moved = source
        if rotary is not None:
            moved = rotate(source, *unit_rotation(torch.tensor(DELTA), rotary.inv_freq), rotary)
        torch.testing.assert_close(moved, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", MOVABLE)
def test_attention_over_moved_entries_equals_attention_over_moved_keys(name: str) -> None:
    """Each layer turns its queries by its own rotation; cached keys stay where they are."""
    run = PagedRun(tiny.build(name), check=False)
    layout = probe_layout(run.paged)
    run.paged.use_layout(layout)
    front, home, copy = run.table(DELTA + 2), run.table(12), run.table(12)
    tokens = [*range(3, 3 + DELTA), *PROMPT, *QUESTION]
    run.step(Feed(tokens, front, 0, DELTA), Feed(PROMPT, home, 0, 12))
    copy_moved_keys(run, layout, home, copy)
    front = front.cut(DELTA)
    tables = (front + home.moved(DELTA), front + home, front + copy)
    moved, unmoved, expected = (
        run.step(Feed(tokens, table + run.table(3), DELTA + 12, DELTA + 15))[0] for table in tables
    )
    torch.testing.assert_close(moved, expected, atol=1e-4, rtol=0)
    assert (unmoved - expected).abs().max() > 10 * (moved - expected).abs().max()


def copy_moved_keys(run: PagedRun, layout: Layout, source: Table, target: Table) -> None:
    slots = torch.tensor(source.slots()), torch.tensor(target.slots())
    deltas = torch.full_like(slots[0], DELTA, dtype=torch.int32)
    standing = Rotary(torch.zeros(1, dtype=torch.float64))  # NoPE: the key is right as it is
    for index in range(len(layout.layers)):
        rope_shift(run.kv_cache(index), *slots, deltas, layout.rotary(index) or standing)


@pytest.mark.report("S22")
@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"rope_type": "default", "mrope_section": [2, 3, 3]}, "several position axes (M-RoPE)"),
        ({"rope_type": "spiral"}, "RoPE type 'spiral' is not known to be a rotation"),
    ],
)
def test_other_kinds_of_rope_are_refused(parameters: dict[str, object], reason: str) -> None:
    paged = PagedModel(tiny.build("llama"), check=False)
    paged.model.config.rope_parameters = parameters
    layout = probe_layout(paged)
    assert layout.reason is not None
    assert reason in layout.reason


def test_a_layout_with_a_reason_is_not_used() -> None:
    paged = PagedModel(tiny.build("llama"), check=False)
    with pytest.raises(AssertionError):
        paged.use_layout(Layout((Unknown("because"),) * 4))


def test_probing_changes_nothing() -> None:
    paged = PagedModel(tiny.build("llama/dynamic"), check=False)
    before = paged.model.model.rotary_emb.inv_freq.clone()
    first, second = probe_layout(paged), probe_layout(paged)
    assert torch.equal(paged.model.model.rotary_emb.inv_freq, before)
    assert list(map(place, first.layers)) == list(map(place, second.layers))
    assert math.isfinite(float(first.layers[0].inv_freq.sum()))  # type: ignore[union-attr]
