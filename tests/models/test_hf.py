"""Paged KV gives the logits of the model's own full forward, for every supported family."""

import gc
import weakref

import pytest
import tiny
import torch
from paged_run import Feed, PagedRun, full_logits
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from kvtool.models.hf import PagedModel

TOLERANCE = 1e-4  # absolute, on fp32 logits
LONG = [(37 * i + 5) % 120 + 3 for i in range(21)]  # crosses two windows or chunks of 8
SHORT = [33, 34, 35, 90]
NEW_TOKENS = 4


@pytest.fixture(params=tiny.SUPPORTED, scope="module")  # built once for both tests
def model(request: pytest.FixtureRequest) -> torch.nn.Module:
    return tiny.build(request.param)


def close(logits: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.report("S80")
def test_packed_chunked_prefill_and_decode_equal_the_full_forward(model: torch.nn.Module) -> None:
    """Two ragged sequences, prefill in chunks beside each other and beside decodes, no padding."""
    run = PagedRun(model)
    long, short = list(LONG), list(SHORT)
    long_table, short_table = run.table(len(long) + NEW_TOKENS), run.table(len(short) + NEW_TOKENS)
    rows: dict[int, list[torch.Tensor]] = {id(long): [], id(short): []}

    def step(*feeds: Feed) -> None:
        for feed, logits in zip(feeds, run.step(*feeds), strict=True):
            rows[id(feed.tokens)].append(logits)
            if feed.end == len(feed.tokens):  # the whole prompt is in: greedy
                feed.tokens.append(int(logits[-1].argmax()))

    step(Feed(long, long_table, 0, 8))
    step(Feed(short, short_table, 0, 4), Feed(long, long_table, 8, 15))
    step(Feed(long, long_table, 15, 21), Feed(short, short_table, 4, 5))
    for end in range(22, 22 + NEW_TOKENS - 1):
        step(Feed(short, short_table, end - 17, end - 16), Feed(long, long_table, end - 1, end))
    for tokens, prompt in ((long, LONG), (short, SHORT)):
        expected = full_logits(model, tokens[:-1])
        close(torch.cat(rows[id(tokens)]), expected)
        assert tokens[len(prompt) :] == expected[len(prompt) - 1 :].argmax(-1).tolist()


def test_cached_prefix_and_split_entries_equal_the_full_forward(model: torch.nn.Module) -> None:
    """A prefix computed once serves another prompt, from a table whose entries start mid-block."""
    run = PagedRun(model, check=False)
    first, second = LONG[:12], [*LONG[:10], 99, 98, 97, 96]
    table = run.ragged_table(20)
    (logits,) = run.step(Feed(first, table, 0, 12))
    close(logits, full_logits(model, first))
    (again,) = run.step(Feed(first, table, 11, 12, store=False))  # everything cached: one row
    close(again, logits[-1:])
    (warm,) = run.step(Feed(second, table, 10, 14))  # overwrites two slots behind the prefix
    close(warm, full_logits(model, second)[10:])


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "deepseek_v3", "gpt_oss"])
def test_sixteen_bit_stays_near_the_full_forward(name: str) -> None:
    model = tiny.build(name, dtype=torch.bfloat16)
    run = PagedRun(model)
    assert {pool.dtype for pool in run.paged.pools} == {torch.bfloat16}
    table = run.table(20)
    logits = torch.cat([*run.step(Feed(LONG, table, 0, 13)), *run.step(Feed(LONG, table, 13, 20))])
    assert logits.dtype == torch.float32
    expected = full_logits(model, LONG[:20])
    distance = (logits - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert float(distance.quantile(0.75)) < 0.05


def test_pool_layout_is_block_major() -> None:
    shapes = {}
    for name in ("llama", "deepseek_v3", "gemma3_text"):
        paged = PagedModel(tiny.build(name), check=False)
        paged.allocate_pools(5, 7)
        shapes[name] = [tuple(pool.shape) for pool in paged.pools]
        for group, pool in zip(paged.groups, paged.pools, strict=True):
            assert pool[0].is_contiguous()
            assert pool[0].numel() * 4 == group.block_bytes(7)
    assert shapes["llama"] == [(5, 4, 2, 2, 7, 16)]
    assert shapes["deepseek_v3"] == [(5, 4, 7, 24)]
    assert shapes["gemma3_text"] == [(5, 5, 2, 2, 7, 16), (5, 1, 2, 2, 7, 16)]


@pytest.mark.report("S54")
def test_head_dim_is_what_the_layers_use() -> None:
    """hidden 40, 8 heads, head_dim 16: not 40 / 8."""
    (group,) = PagedModel(tiny.build("llama/head_dim"), check=False).groups
    assert (group.num_kv_heads, group.head_dim) == (2, 16)


def test_only_wanted_rows_get_logits() -> None:
    run = PagedRun(tiny.build("llama"), check=False)
    seen: list[torch.Size] = []
    run.paged.model.lm_head.register_forward_hook(lambda _, args, __: seen.append(args[0].shape))
    run.step(Feed(SHORT, run.table(4), 0, 4))
    assert [tuple(shape) for shape in seen] == [(1, 4, 64)]


def test_two_adaptors_do_not_see_each_other() -> None:
    """Each forward uses its own pools, and the models stay usable by themselves in between."""
    one, two = tiny.build("llama"), tiny.build("llama", seed=1)
    runs = [PagedRun(model, check=False) for model in (one, two)]
    tables = [run.table(12) for run in runs]
    for start, end in ((0, 5), (5, 12)):
        for run, table, model in zip(runs, tables, (one, two), strict=True):
            (logits,) = run.step(Feed(LONG, table, start, end))
            close(logits, full_logits(model, LONG[:12])[start:end])


def test_a_dropped_adaptor_leaves_nothing_behind() -> None:
    names = set(ALL_ATTENTION_FUNCTIONS.valid_keys())
    run = PagedRun(tiny.build("llama"))
    gone = weakref.ref(run.paged.model)
    run.step(Feed(SHORT, run.table(4), 0, 4))
    assert set(ALL_ATTENTION_FUNCTIONS.valid_keys()) == names
    del run
    gc.collect()
    assert gone() is None
