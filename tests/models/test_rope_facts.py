"""The facts hold for every family whose keys can be moved, and fail where they are not so."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch

from examples.rope_verify import main
from kvtool.errors import ModelError
from kvtool.models.hf import PagedModel
from kvtool.models.layout import Layout
from kvtool.models.layout_probe import probe_layout
from kvtool.models.rope_fact import Fact, Measured
from kvtool.models.rope_facts import RopeFacts, rope_facts
from kvtool_kernels import Rotary

UNMOVABLE = ("gpt2", "gpt_bigcode", "opt", "hunyuan_v1_dense")
MOVABLE = [name for name in tiny.SUPPORTED if name not in UNMOVABLE]
FACTS = [
    "rotations add",
    "the query turns instead of the key",
    "scores depend on distance",
    "the same text at two positions",
    "a move is exact in layer 0",
]


def model(name: str, **settings: object) -> PagedModel:
    return PagedModel(tiny.build(name, **settings), check=False)


def failing(facts: RopeFacts) -> list[str]:
    return [fact.name for fact in facts.facts if not fact.holds]


@pytest.mark.parametrize("name", MOVABLE)
def test_every_fact_holds(name: str) -> None:
    facts = rope_facts(model(name))
    assert [fact.name for fact in facts.facts] == FACTS
    assert failing(facts) == []
    assert facts.holds
    assert json.loads(json.dumps(facts.as_dict(), allow_nan=False))["holds"] is True


@pytest.mark.parametrize("name", UNMOVABLE)
def test_where_a_shift_is_no_rotation_there_is_a_reason(name: str) -> None:
    facts = rope_facts(model(name))
    assert not facts.holds
    assert facts.reason is not None and facts.reason.startswith("layer 0: ")
    assert (facts.pairs, facts.facts) == ((), ())
    assert facts.as_dict()["reason"] == facts.reason


@pytest.mark.parametrize("name", ["llama", "glm4", "deepseek_v2", "gemma3_text"])
def test_the_facts_hold_in_bfloat16(name: str) -> None:
    facts = rope_facts(model(name, dtype=torch.bfloat16))
    assert facts.dtype == "bfloat16"
    assert failing(facts) == []


@pytest.mark.parametrize("name", ["llama", "cohere", "gpt_neox", "deepseek_v3"])
def test_the_facts_hold_over_131072_tokens(name: str) -> None:
    """There the model's own fp32 angles are the limit: 1e-3 in layer 0."""
    facts = rope_facts(model(name, max_position_embeddings=131_072))
    assert failing(facts) == []
    moves = measured(facts, "a move is exact in layer 0")
    assert max(moves.values()) < 1e-3
    assert moves["moved by 1000, relative L2"] < 1e-5


WRONG: dict[str, Callable[[Rotary], Rotary]] = {
    "pairing": lambda rotary: rotary._replace(interleaved=not rotary.interleaved),
    "direction": lambda rotary: rotary._replace(inv_freq=-rotary.inv_freq),
    "theta": lambda rotary: rotary._replace(inv_freq=rotary.inv_freq**1.01),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_layout_is_found_out(wrong: str) -> None:
    paged = model("llama")
    layers = [WRONG[wrong](layer) for layer in probe_layout(paged).layers]  # type: ignore[arg-type]
    paged.use_layout(Layout(tuple(layers)))
    expected = ["the same text at two positions", "a move is exact in layer 0"]
    assert failing(rope_facts(paged)) == expected


def test_a_score_that_depends_on_the_position_is_found_out() -> None:
    """The query of one layer turns by half an angle, its key by the whole."""
    paged = model("llama")
    attention = paged.model.model.layers[2].self_attn
    original = type(attention).forward

    def forward(module: torch.nn.Module, *args: object, **kwargs: object) -> object:
        cos, sin = kwargs.pop("position_embeddings")  # type: ignore[misc]
        return original(module, *args, position_embeddings=(cos, sin.abs()), **kwargs)

    paged.use_layout(probe_layout(paged))
    attention.forward = forward.__get__(attention)
    assert "scores depend on distance" in failing(rope_facts(paged))


def measured(facts: RopeFacts, name: str) -> dict[str, float]:
    fact = next(fact for fact in facts.facts if fact.name == name)
    return {measured.what: measured.value for measured in fact.measured}


def test_what_is_told_besides_the_verdicts() -> None:
    facts = rope_facts(model("llama"))
    values = measured(facts, "the same text at two positions")
    assert values["layer 0: K as it stands, relative L2"] > 0.5
    assert values["last layer: K turned by delta, relative L2 (other context)"] > 1e-3
    scores = measured(facts, "scores depend on distance")
    assert scores["for comparison, the query alone 1 further"] > 1e-2


def test_frequencies_of_each_kind_of_layer() -> None:
    local, distant = rope_facts(model("gemma3_text/linear")).pairs
    assert (local.layers, distant.layers) == ((0, 1, 2, 3, 4), (5,))
    steps = torch.arange(8, dtype=torch.float64) / 8
    assert local.frequencies == pytest.approx((10_000.0**-steps).tolist())
    assert distant.frequencies == pytest.approx((1_000_000.0**-steps / 8).tolist())
    turns = (2 * torch.pi * 10_000.0**steps).tolist()
    assert local.wavelengths == pytest.approx(turns)
    assert local.unfinished == sum(turn > tiny.MAX_LEN for turn in turns) == 4


PARTS = {
    "llama": [("whole head", (0, 16), "half-split", "forward")],
    "cohere": [("whole head", (0, 16), "interleaved", "forward")],
    "nanochat": [("whole head", (0, 16), "half-split", "backward")],
    "gpt_neox": [("partial rotary", (0, 4), "half-split", "forward")],
    "deepseek_v2": [("rotary part of MLA", (16, 24), "interleaved", "forward")],
    "smollm3": [
        ("whole head", (0, 16), "half-split", "forward"),
        ("NoPE", None, None, None),
    ],
}


@pytest.mark.parametrize("name", PARTS)
def test_what_a_layer_turns_and_how(name: str) -> None:
    pairs = rope_facts(model(name)).pairs
    assert [(p.part, p.values, p.pairing, p.direction) for p in pairs] == PARTS[name]


def test_layers_without_rotation_are_named() -> None:
    turned, still = rope_facts(model("smollm3")).pairs
    assert (turned.layers, still.layers) == ((0, 1, 2), (3,))


def test_a_model_without_any_rotation() -> None:
    facts = rope_facts(model("smollm3", no_rope_layers=[0, 0, 0, 0]))
    assert [fact.name for fact in facts.facts] == FACTS[2:]
    assert [pairs.part for pairs in facts.pairs] == ["NoPE"]


def test_chunks_of_llama4_limit_the_moves() -> None:
    assert rope_facts(model("llama4_text")).delta_multiple == 8
    values = measured(rope_facts(model("llama4_text")), "scores depend on distance")
    assert values["|q| changes with the position by (Llama 4's temperature)"] > 0.1


def test_a_context_too_short_to_compare() -> None:
    with pytest.raises(ModelError, match="32 tokens"):
        rope_facts(model("llama", max_position_embeddings=32))


def test_measured_values() -> None:
    assert Measured("x", 1.0).holds
    assert Measured("x", 1.0, 1.0).holds
    assert not Measured("x", float("nan"), 1.0).holds
    assert not Fact("n", "s", (Measured("x", 0.0, 1.0), Measured("y", 2.0, 1.0))).holds


def test_the_example_tells_the_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tiny.folder(tmp_path, "gemma3_text"))]) == 0
    out = capsys.readouterr().out
    assert "Gemma3ForCausalLM, float32, context 256 tokens" in out
    assert "Layers 0-4: whole head, values 0…15 of 16, half-split pairs" in out
    assert out.rstrip().endswith("Every fact holds.")
    assert "FAILS" not in out


def test_the_example_fails_where_keys_cannot_be_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tiny.folder(tmp_path, "gpt2"))]) == 1
    assert "cannot be moved: layer 0: V depends on the position" in capsys.readouterr().out
