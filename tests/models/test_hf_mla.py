"""Absorbed latent attention: cached context and chunk size change nothing."""

import pytest
import tiny
import torch
from paged_run import Feed, PagedRun, full_logits

TOKENS = [(29 * i + 7) % 120 + 3 for i in range(50)]
FAMILIES = ["deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3"]


@pytest.mark.report("S42")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("chunk", [7, 16, 50])
@pytest.mark.parametrize("cached", [0, 16])
def test_chunks_and_cached_context(name: str, chunk: int, cached: int) -> None:
    model = tiny.build(name)
    run = PagedRun(model, check=False)
    table = run.table(50)
    if cached:
        run.step(Feed(TOKENS, table, 0, cached))
    starts = range(cached, 50, chunk)
    rows = [run.step(Feed(TOKENS, table, s, min(s + chunk, 50)))[0] for s in starts]
    expected = full_logits(model, TOKENS)[cached:]
    torch.testing.assert_close(torch.cat(rows), expected, atol=1e-4, rtol=0)


@pytest.mark.report("S56")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_token_costs_one_latent_row_a_layer(name: str) -> None:
    (group,) = PagedRun(tiny.build(name), check=False).paged.groups
    assert (group.kind, group.num_kv_heads, group.latent_dim) == ("latent", 1, 16)
    assert group.bytes_per_token == (16 + 8) * 4 * 4  # (latent + rope) values, 4 layers, fp32
