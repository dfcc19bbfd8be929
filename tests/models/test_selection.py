"""Tokens chosen on pages are those that dense attention over the same stale K and V chooses."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
from models.dense_model import dense_forward
from models.selection_case import (
    BETWEEN,
    FIRST,
    PROMPT,
    QUESTION,
    SECOND,
    SelectionCase,
    candidates,
)
from paged_run import Feed, PagedRun

from kvtool.errors import ModelError
from kvtool.models.hf import PagedModel
from kvtool.models.selection import check_selectable, select_tokens
from kvtool.models.selection_attention import attention_scores
from kvtool.models.selection_deviation import deviation_scores
from kvtool.reuse.probe import Candidates

FAMILIES = [  # a kind of rotation, mask, scoring or group layout each
    *("llama", "llama/yarn", "mistral", "qwen2/sliding", "gemma2/softcap", "gemma3_text/linear"),
    *("gpt_oss", "cohere2", "smollm3", "gptj", "gpt_neox", "phi", "glm4", "llama4_text"),
    *("deepseek_v2", "deepseek_v3", "minicpm3"),
]
ROWS = [*BETWEEN, *QUESTION]
EVERYTHING = range(FIRST[0], SECOND[1])
DEVIATIONS = ["vdev", "kdev"]
RULES = ["attn", *DEVIATIONS]
TOLERANCE = {"atol": 2e-5, "rtol": 2e-4}


def rows_of(rule: str) -> list[int]:
    return ROWS if rule == "attn" else list(EVERYTHING)


def scores(case: SelectionCase, rule: str, max_rows: int = 99) -> list[torch.Tensor]:
    inputs, tokens = case.inputs(rows_of(rule)), candidates(1, 1)
    with torch.inference_mode():
        if rule == "attn":
            return attention_scores(case.paged, inputs, tokens, max_rows)
        return deviation_scores(case.paged, rule, inputs, tokens, max_rows)


def expected_scores(case: SelectionCase, rule: str) -> list[torch.Tensor]:
    runs = [slice(*FIRST), slice(*SECOND)]
    stale = [tensor.clone() for tensor in case.stale_keys], case.stale_values
    if rule == "attn":
        cache = dense_forward(case.paged, [PROMPT[i] for i in ROWS], ROWS, *stale)
        mass = cache.mass[len(BETWEEN) :].sum(0)
        return [mass[r] / (1 + torch.arange(r.stop - r.start) / 16).sqrt() for r in runs]
    layer = case.paged.layers[1]
    fresh_keys, stale_keys = case.exact_keys[1], case.stale_keys[1]
    fresh_values, stale_values = case.exact_values[1], case.stale_values[1]
    distances = [
        (fresh - old).double().square().sum((1, 2))
        for fresh, old in ((fresh_keys, stale_keys), (fresh_values, stale_values))
    ]
    if layer.is_latent:  # the row is K, its latent V
        distances = [sum(distances), distances[0]]
    return [distances[rule == "vdev"][r] for r in runs]


@pytest.mark.parametrize("unrotated", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_scores_and_choice_equal_the_dense_ones(name: str, unrotated: bool) -> None:
    """Keys cached without their rotation deviate by as much, for a turn keeps lengths."""
    case = SelectionCase(name, unrotated=unrotated)
    for rule in RULES:
        expected = expected_scores(case, rule)
        for found, wanted in zip(scores(case, rule), expected, strict=True):
            torch.testing.assert_close(found, wanted.double(), **TOLERANCE)
        chosen = select_tokens(case.paged, rule, case.inputs(rows_of(rule)), candidates(5, 4))
        for positions, wanted, run, count in zip(
            chosen.positions, expected, (FIRST, SECOND), (5, 4), strict=True
        ):
            best = sorted(range(len(wanted)), key=lambda i: (-float(wanted[i]), i))[:count]
            assert positions.tolist() == sorted(run[0] + i for i in best)
            assert positions.dtype == np.int64


@pytest.mark.parametrize(
    "name", ["llama", "gemma2/softcap", "gemma3_text", "gpt_oss", "gptj", "deepseek_v3"]
)
def test_mass_is_what_the_model_itself_says(name: str) -> None:
    """Exact KV, against `output_attentions` of the model's own eager forward."""
    run = PagedRun(tiny.build(name), check=False)
    run.paged.model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = run.paged.model(torch.tensor([PROMPT]), output_attentions=True, use_cache=False)
    first, stop = 12, 40
    attentions = torch.stack([weights[0, :, stop:, first:stop] for weights in out.attentions])
    table = run.ragged_table(len(PROMPT))
    run.step(Feed(PROMPT, table, 0, stop))
    case = object.__new__(SelectionCase)
    case.run, case.paged, case.table = run, run.paged, table
    tokens = (Candidates(first, stop, first, 3),)
    (found,) = attention_scores(run.paged, case.inputs(range(stop, len(PROMPT))), tokens, 7)
    undamped = found * (1 + torch.arange(stop - first) / 16).sqrt()
    torch.testing.assert_close(undamped, attentions.sum((0, 1, 2)).double(), **TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["llama", "gemma3_text/linear", "llama4_text", "deepseek_v3"])
def test_rows_at_a_time_change_nothing(name: str, rule: str) -> None:
    case = SelectionCase(name)
    whole = scores(case, rule)
    for max_rows in (1, 7):
        for found, wanted in zip(scores(case, rule, max_rows), whole, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["llama", "gpt_oss", "deepseek_v3"])
def test_nothing_is_written_but_rows_outside_the_runs(name: str, rule: str) -> None:
    case = SelectionCase(name)
    before = [pool.clone() for pool in case.paged.pools]
    select_tokens(case.paged, rule, case.inputs(rows_of(rule)), candidates(5, 4))
    own = ROWS if rule == "attn" else BETWEEN
    for pool, old in zip(case.paged.pools, before, strict=True):
        for block, offset in case.blocks_of(own):
            assert not torch.equal(pool[block, 0, ..., offset, :], old[block, 0, ..., offset, :])
            pool[block, ..., offset, :] = old[block, ..., offset, :]
        assert torch.equal(pool.view(torch.int32), old.view(torch.int32))  # NaN included


@pytest.mark.parametrize("rule", DEVIATIONS)
def test_a_row_sees_nothing_behind_it(rule: str) -> None:
    """The last run's tokens are changed where they stand: no other token's score moves."""
    case = SelectionCase("llama")
    first, _ = scores(case, rule)
    for block, offset in case.blocks_of(range(SECOND[0], SECOND[1])):
        case.paged.pools[0][block, ..., offset, :] += 100
    changed, _ = scores(case, rule)
    assert torch.equal(changed, first)


def test_a_token_outside_the_window_of_every_layer_has_no_mass() -> None:
    case = SelectionCase("mistral")  # windows of 8 in all layers
    first, second = scores(case, "attn")
    assert float(first.max()) == 0
    reach = QUESTION[0] - tiny.WINDOW + 1 - SECOND[0]
    assert float(second[:reach].max()) == 0 and float(second[reach:].min()) > 0


def test_the_index_counts_from_the_runs_first_token() -> None:
    case = SelectionCase("llama")
    whole, _ = scores(case, "attn")
    tokens = candidates(1, 1, leading=6)
    tail, _ = attention_scores(case.paged, case.inputs(ROWS), tokens, 99)
    torch.testing.assert_close(tail, whole[6:])


@pytest.mark.parametrize("rule", RULES)
def test_all_of_a_run_is_all_of_it(rule: str) -> None:
    case = SelectionCase("llama")
    inputs = case.inputs(rows_of(rule))
    lengths = [stop - start for start, stop in (FIRST, SECOND)]
    for counts in (lengths, [lengths[0], 3]):
        chosen = select_tokens(case.paged, rule, inputs, candidates(*counts))
        assert chosen.positions[0].tolist() == list(range(*FIRST))
        assert len(chosen.positions[1]) == counts[1]
    assert select_tokens(case.paged, rule, inputs, candidates(*lengths)).row_layers == 0


def test_ties_go_to_the_earlier_token() -> None:
    case = SelectionCase("mistral")  # nothing of the first run is in sight
    chosen = select_tokens(case.paged, "attn", case.inputs(ROWS), candidates(4, 1))
    assert chosen.positions[0].tolist() == list(range(FIRST[0], FIRST[0] + 4))


def test_what_choosing_costs() -> None:
    case = SelectionCase("llama")
    called: list[str] = []
    for name, module in case.paged.model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: called.append(name))
    chosen = select_tokens(case.paged, "attn", case.inputs(ROWS), candidates(5, 4))
    assert chosen.row_layers == len(ROWS) * 4 and called.count("lm_head") == 1  # of no rows
    assert called.count("model.layers.3.mlp") == 1  # of the rows that do not count
    called.clear()
    chosen = select_tokens(case.paged, "vdev", case.inputs(EVERYTHING), candidates(5, 4))
    assert chosen.row_layers == len(EVERYTHING) * 1.1
    assert "model.layers.1.self_attn.v_proj" in called and "model.layers.0.mlp" in called
    assert not [name for name in called if name.startswith(("model.layers.2", "lm_head"))]
    assert "model.layers.1.mlp" not in called


def test_a_model_of_one_layer_is_refused_by_name() -> None:
    paged = PagedModel(tiny.build("llama", num_hidden_layers=1), check=False)
    check_selectable(paged, "attn")
    for rule in DEVIATIONS:
        with pytest.raises(ModelError, match=f"LlamaForCausalLM .* repair {rule}: it has 1 layer"):
            check_selectable(paged, rule)


def test_the_model_is_left_as_it_was() -> None:
    case = SelectionCase("gemma3_text")
    tokens = torch.tensor([PROMPT])
    before = case.paged.model(input_ids=tokens).logits
    for rule in RULES:
        select_tokens(case.paged, rule, case.inputs(rows_of(rule)), candidates(5, 4))
    assert torch.equal(case.paged.model(input_ids=tokens).logits, before)
