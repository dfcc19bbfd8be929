"""Length-dependent RoPE is capped to the context in which it is constant, and says so."""

import pytest
import tiny
import torch
from paged_run import Feed, PagedRun, full_logits

from kvtool.models.hf import PagedModel


@pytest.mark.report("S20")
@pytest.mark.parametrize(
    ("name", "regime", "limit"),
    [
        ("llama/dynamic", "dynamic[0,256)", 256),
        ("llama/longrope", "longrope[0,64)", 64),
        ("phi3/longrope", "longrope[0,64)", 64),
    ],
)
def test_context_ends_where_the_frequencies_change(name: str, regime: str, limit: int) -> None:
    paged = PagedModel(tiny.build(name), check=False)
    assert (paged.rope_regime, paged.max_model_len) == (regime, limit)
    assert paged.max_model_len_reason is not None
    assert f"changes its frequencies beyond {limit} tokens" in paged.max_model_len_reason


@pytest.mark.parametrize(
    ("name", "regime"),
    [
        ("llama", "default"),
        ("llama/yarn", "yarn"),
        ("llama/llama3", "llama3"),
        ("gemma3_text/linear", "full_attention=linear+sliding_attention=default"),
        ("gpt2", "none"),
    ],
)
def test_constant_frequencies_keep_the_stated_context(name: str, regime: str) -> None:
    paged = PagedModel(tiny.build(name), check=False)
    assert (paged.rope_regime, paged.max_model_len) == (regime, tiny.MAX_LEN)
    assert paged.max_model_len_reason is None


@pytest.mark.report("S20")
@pytest.mark.parametrize(
    ("name", "settings"),
    [("llama/dynamic", {"max_position_embeddings": 32}), ("llama/longrope", tiny.longrope(32))],
)
def test_results_do_not_depend_on_the_split_up_to_the_last_position(
    name: str, settings: dict[str, object]
) -> None:
    model = tiny.build(name, **settings)
    run = PagedRun(model)
    tokens = [(11 * i) % 120 + 3 for i in range(run.paged.max_model_len)]
    assert len(tokens) == 32
    table = run.table(32)
    parts = [run.step(Feed(tokens, table, s, e))[0] for s, e in ((0, 20), (20, 31), (31, 32))]
    torch.testing.assert_close(torch.cat(parts), full_logits(model, tokens), atol=1e-4, rtol=0)
