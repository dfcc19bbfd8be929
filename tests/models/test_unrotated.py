"""Keys cached without their rotation give what keys with it give, wherever they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from paged_run import BLOCK_SIZE, Feed, PagedRun, full_logits
from transformers import AutoConfig, AutoModelForCausalLM

from kvtool.errors import ModelError
from kvtool.models.hf import PagedModel
from kvtool.models.layout_probe import probe_layout
from kvtool.models.rope_facts import rope_facts
from kvtool.models.shift_check import Move, failing_runs, prepare_shift
from kvtool.models.unrotated import other_use_of_positions
from kvtool.reuse.run import Run

# name -> why its keys stay as they are
REFUSED = {
    **dict.fromkeys(("gpt2", "gpt_bigcode", "opt"), "V depends on the position"),
    "hunyuan_v1_dense": "no known rotation explains its keys",
    "llama/dynamic": "dynamic RoPE chooses its frequencies by the positions it is told",
    **dict.fromkeys(("llama/longrope", "phi3/longrope"), "longrope RoPE chooses its frequencies"),
    "llama4_text": r"layer 3 scales its queries by position \(temperature\)",
}
LAYOUTS = [name for name in tiny.SUPPORTED if name not in REFUSED] + ["llama4_text/even"]
SETTINGS: dict[str, dict[str, Any]] = {"llama4_text/even": {"attn_temperature_tuning": False}}
TOLERANCE = 1e-4  # absolute, on fp32 logits; the model's own angles are fp32, the table's are not
DELTA = 40  # a multiple of the chunk
TOKENS = [(37 * i + 5) % 120 + 3 for i in range(21)]  # crosses two windows or chunks of 8
TEXT = [(31 * i + 9) % 120 + 3 for i in range(12)]
QUESTION = [60, 61, 62]


def build(name: str, **options: Any) -> Any:
    return tiny.build(name.removesuffix("/even"), **SETTINGS.get(name, {}), **options)


def unrotated(model: Any) -> PagedRun:
    run = PagedRun(model, check=False)
    run.paged.use_layout(probe_layout(run.paged), unrotated=tiny.MAX_LEN)
    return run


def rotated(model: Any) -> PagedRun:
    run = PagedRun(model, check=False)
    run.paged.use_layout(probe_layout(run.paged))
    return run


def close(logits: torch.Tensor, expected: torch.Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(logits, expected, atol=tolerance, rtol=0)


@pytest.mark.report("S19")
@pytest.mark.report("S21")  # llama/yarn: its magnitude is on q and k once
@pytest.mark.parametrize("name", LAYOUTS)
def test_cold_and_warm_equal_the_full_forward(name: str) -> None:
    """Chunked prefill, a packed second sequence on the cached prefix, and greedy decoding."""
    model = build(name)
    run, tokens = unrotated(model), list(TOKENS)
    table, other = run.ragged_table(26), [*TOKENS[:10], 99, 98, 97]
    rows = run.step(Feed(tokens, table, 0, 8)) + run.step(Feed(tokens, table, 8, 21))
    tokens.append(int(rows[-1][-1].argmax()))
    branch = table.cut(10) + run.table(3)
    for step in range(4):
        feeds = [Feed(tokens, table, 21 + step, 22 + step)]
        if step == 0:
            feeds.append(Feed(other, branch, 10, 13))
        logits, *warm = run.step(*feeds)
        rows.append(logits)
        tokens.append(int(logits[-1].argmax()))
        for part in warm:
            close(part, full_logits(model, other)[10:])
    expected = full_logits(model, tokens[:-1])
    close(torch.cat(rows), expected)
    assert tokens[21:] == expected[20:].argmax(-1).tolist()


@pytest.mark.parametrize("name", LAYOUTS)
def test_moved_text_equals_text_moved_by_turned_queries(name: str) -> None:
    """The same text behind the same donor, read at another place: both schemes, one answer."""
    model, tokens = build(name), [*range(3, 3 + DELTA), *TEXT, *QUESTION]
    answers = []
    for run in (rotated(model), unrotated(model)):
        front, home = run.table(DELTA), run.table(12)
        run.step(Feed(tokens, front, 0, DELTA), Feed(TEXT, home, 0, 12))
        table = front.cut(DELTA) + home.moved(DELTA) + run.table(3)
        answers.append(run.step(Feed(tokens, table, DELTA + 12, DELTA + 15))[0])
        if run.paged.paged_layers[0].rope is None:  # a delta says nothing about such a key
            still = front.cut(DELTA) + home + run.table(3)
            (again,) = run.step(Feed(tokens, still, DELTA + 12, DELTA + 15))
            assert torch.equal(again, answers[-1])
    close(answers[1], answers[0], 1e-5)


@pytest.mark.parametrize("name", ["llama", "cohere", "glm4", "gemma3_text", "deepseek_v3"])
def test_layer_0_stores_the_same_at_any_position(name: str) -> None:
    run = unrotated(build(name))
    far, near = run.table(52), run.table(12)
    run.step(Feed([*range(3, 43), *TEXT], far, 0, 52), Feed(TEXT, near, 0, 12))
    cache = run.kv_cache(0)
    rows = [
        torch.stack([cache[slot // BLOCK_SIZE, ..., slot % BLOCK_SIZE, :] for slot in slots])
        for slots in (far.slots()[40:52], near.slots()[:12])
    ]
    torch.testing.assert_close(rows[0], rows[1], atol=1e-6, rtol=0)  # rows of other matrices


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "deepseek_v3", "gpt_oss"])
def test_sixteen_bit_stays_near_the_full_forward(name: str) -> None:
    model = build(name, dtype=torch.bfloat16)
    run = unrotated(model)
    assert {pool.dtype for pool in run.paged.pools} == {torch.bfloat16}
    table = run.table(20)
    logits = torch.cat(
        [*run.step(Feed(TOKENS, table, 0, 13)), *run.step(Feed(TOKENS, table, 13, 20))]
    )
    expected = full_logits(model, TOKENS[:20])
    distance = (logits - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert float(distance.quantile(0.75)) < 0.05


@pytest.mark.report("S20")
@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_uses_positions_otherwise_is_refused_by_name(name: str) -> None:
    paged = PagedModel(build(name), check=False)
    with pytest.raises(ModelError, match=f"{type(paged.model).__name__} cannot .*{REFUSED[name]}"):
        prepare_shift(paged, "nope")
    assert paged.layout is None


def ministral(beta: float) -> Any:
    scaling = {"factor": 4.0, "original_max_position_embeddings": 64, "llama_4_scaling_beta": beta}
    return AutoModelForCausalLM.from_config(
        AutoConfig.for_model("ministral3", **tiny.HEAD | tiny.rope("yarn", **scaling))
    ).eval()


def test_a_temperature_by_position_ids_is_refused() -> None:
    paged = PagedModel(ministral(0.1), check=False)
    with pytest.raises(ModelError, match=r"layer 0 scales its queries .*temperature") as refused:
        prepare_shift(paged, "nope")
    assert refused.value.hint == "Use --reuse-scheme rotate."
    prepare_shift(paged)
    prepare_shift(PagedModel(ministral(0.0), check=False), "nope")


@pytest.mark.report("S22")
def test_several_position_axes_are_refused() -> None:
    paged = PagedModel(tiny.build("llama"), check=False)
    paged.model.config.rope_parameters = {"rope_type": "default", "mrope_section": [2, 3, 3]}
    with pytest.raises(ModelError, match=r"several position axes \(M-RoPE\)"):
        prepare_shift(paged, "nope")


def test_queries_that_turn_unlike_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    apply = modeling_llama.apply_rotary_pos_emb

    def lagging(query: Any, key: Any, cos: Any, sin: Any, **options: Any) -> Any:
        return apply(query, key, cos, -sin)[0], apply(query, key, cos, sin)[1]

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", lagging)
    paged = PagedModel(tiny.build("llama"), check=False)
    reason = other_use_of_positions(paged, probe_layout(paged))
    assert reason is not None and reason.startswith("the queries of layer 0 are not turned as its")


def test_what_disagrees_with_the_full_forward_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    paged = PagedModel(tiny.build("llama"), check=False)
    monkeypatch.setattr(PagedModel, "position_ids", lambda self, positions: positions)
    with pytest.raises(ModelError, match="through paged KV differ from its own forward"):
        prepare_shift(paged, "nope")
    assert paged.layout is None and not paged.pools


def test_a_first_layer_without_rotation_can_vouch_for_others() -> None:
    """Under rotate it cannot: a wrong delta would go unseen. Here there is none."""
    model = tiny.build("smollm3", no_rope_layers=[0, 1, 1, 1])
    with pytest.raises(ModelError, match="layer 0 does not turn its keys"):
        prepare_shift(PagedModel(model, check=False))
    prepare_shift(PagedModel(model, check=False), "nope")


@pytest.mark.parametrize("name", ["llama", "glm4", "smollm3", "gemma3_text", "deepseek_v2"])
def test_the_check_of_layer_0_knows_tokens_and_no_positions(name: str) -> None:
    run = unrotated(build(name))
    table = run.table(12)
    run.step(Feed(TEXT, table, 0, 12))
    blocks = tuple(extent.block for extent in table.extents)
    tokens = np.array(TEXT, dtype=np.int32)
    moved = Run(100, 112, 100, blocks, 0)
    wrong_delta = moved._replace(start=131, stop=143)
    other = tokens.copy()
    other[7] += 1
    moves = [Move(moved, tokens), Move(wrong_delta, tokens), Move(moved._replace(delta=7), other)]
    assert failing_runs(run.paged, moves, BLOCK_SIZE) == [moves[2].run]


def test_facts_about_the_model_do_not_depend_on_the_scheme() -> None:
    paged = PagedModel(tiny.build("llama"), check=False)
    prepare_shift(paged, "nope")
    facts = rope_facts(paged)
    assert facts.holds and len(facts.facts) == 5


def test_layers_that_turn_alike_share_a_table() -> None:
    layout = probe_layout(PagedModel(tiny.build("gemma3_text/linear"), check=False))
    tables = layout.tables(9)
    assert len({id(table) for table in tables}) == 2
    assert all(table is not None and table.cos.shape == (9, 8) for table in tables)
    nope = probe_layout(PagedModel(tiny.build("smollm3"), check=False)).tables(9)
    assert nope[3] is None and nope[0] is nope[1] is nope[2] is not None
