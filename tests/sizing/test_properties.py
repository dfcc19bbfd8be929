"""What must hold for any model and any request."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.sizing.calculate import calculate
from kvtool.sizing.capacity import rank_bytes
from kvtool.sizing.formats import FORMATS, kv_format
from kvtool.sizing.layers import CHUNKED, FULL, LATENT, SLIDING, STATE, LayerCache
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.parallel import stages
from kvtool.sizing.request import SizeRequest
from kvtool.sizing.sequence_bytes import Load

few = settings(max_examples=40)
formats = st.sampled_from([name for name, f in FORMATS.items() if f.rope_bits is None])
lengths = st.integers(1, 3000)
block_sizes = st.sampled_from([1, 3, 16, 64])


@st.composite
def caches(draw: st.DrawFn) -> LayerCache:
    kind = draw(st.sampled_from([FULL, SLIDING, CHUNKED, LATENT, STATE]))
    if kind == STATE:
        return LayerCache(
            kind=kind,
            conv_values=draw(st.integers(0, 99)),
            recurrent_values=draw(st.integers(1, 99)),
        )
    if kind == LATENT:
        index = draw(st.sampled_from([0, 128]))
        return LayerCache(
            kind=kind,
            num_heads=8,
            num_kv_heads=1,
            k_dim=96,
            latent_dim=64,
            index_dim=index,
            index_topk=100 if index else None,
        )
    window = None if kind == FULL else draw(st.integers(1, 700))
    heads = draw(st.sampled_from([1, 2, 4, 8]))
    dims = {"k_dim": draw(st.integers(1, 96)), "v_dim": draw(st.integers(1, 96))}
    return LayerCache(kind=kind, num_heads=8, num_kv_heads=heads, window=window, **dims)


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    layers = draw(st.lists(st.lists(caches(), max_size=2).map(tuple), min_size=1, max_size=6))
    return ModelSpec(
        name="any", model_type=None, layers=tuple(layers), max_model_len=None, weight_bytes=None
    )


@few
@given(models(), lengths, st.integers(1, 50), formats, block_sizes)
def test_linear_in_batch(
    model: ModelSpec, tokens: int, batch: int, dtype: str, block_size: int
) -> None:
    one = calculate(model, SizeRequest(tokens=tokens, kv_dtype=dtype, block_size=block_size))
    many = calculate(
        model, SizeRequest(tokens=tokens, kv_dtype=dtype, block_size=block_size, batch=batch)
    )
    for name in ("bytes", "indexer_bytes", "state_bytes", "allocated_bytes", "decode_read_bytes"):
        assert getattr(many, name) == batch * getattr(one, name)
    assert many.bytes_per_token == one.bytes_per_token


@few
@given(models(), lengths, formats, block_sizes)
def test_monotone_in_tokens(model: ModelSpec, tokens: int, dtype: str, block_size: int) -> None:
    request = {"kv_dtype": dtype, "block_size": block_size}
    shorter = calculate(model, SizeRequest(tokens=tokens, **request))
    longer = calculate(model, SizeRequest(tokens=tokens + 1, **request))
    assert longer.bytes == shorter.bytes + shorter.bytes_per_token
    assert longer.allocated_bytes >= shorter.allocated_bytes
    assert longer.cumulative_read_bytes == shorter.cumulative_read_bytes + longer.decode_read_bytes


@few
@given(models(), lengths, formats)
def test_windows_never_exceed_full_length(model: ModelSpec, tokens: int, dtype: str) -> None:
    report = calculate(model, SizeRequest(tokens=tokens, kv_dtype=dtype))
    assert report.bytes <= report.allocated_bytes <= report.full_length_bytes


@few
@given(
    models(), lengths, st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(1, 3), formats
)
def test_ranks_together_hold_at_least_the_model(
    model: ModelSpec, tokens: int, tp: int, pp: int, cp: int, dtype: str
) -> None:
    divisible = all(c.kind in (FULL, LATENT) for row in model.layers for c in row)
    request = SizeRequest(
        tokens=tokens,
        kv_dtype=dtype,
        tp=tp,
        pp=min(pp, len(model.layers)),
        cp=cp if divisible else 1,
    )
    report = calculate(model, request)
    rank = report.per_rank
    assert rank.ranks == request.tp * request.pp * request.cp
    assert rank.ranks * rank.bytes >= report.bytes
    assert rank.ranks * rank.allocated_bytes >= rank.all_ranks_bytes >= report.allocated_bytes
    if rank.ranks == 1:
        assert rank.all_ranks_bytes == report.allocated_bytes


@few
@given(models(), lengths, st.integers(1, 8), st.data())
def test_shared_prefix_is_stored_once(
    model: ModelSpec, tokens: int, batch: int, data: st.DataObject
) -> None:
    shared = data.draw(st.integers(0, tokens))
    apart = calculate(model, SizeRequest(tokens=tokens, batch=batch))
    together = calculate(model, SizeRequest(tokens=tokens, batch=batch, prefix_share=shared))
    one = calculate(model, SizeRequest(tokens=tokens))
    assert one.bytes <= together.bytes <= apart.bytes
    assert together.bytes <= together.allocated_bytes <= apart.allocated_bytes
    assert together.state_bytes == apart.state_bytes
    if not any(c.window for row in model.layers for c in row):
        prefix = calculate(model, SizeRequest(tokens=shared)).bytes if shared else 0
        assert together.bytes == apart.bytes - (batch - 1) * prefix


@few
@given(models(), lengths, st.integers(1, 4), st.integers(1, 10**8), formats)
def test_capacity_is_the_inverse_of_size(
    model: ModelSpec, tokens: int, batch: int, memory: int, dtype: str
) -> None:
    request = SizeRequest(tokens=tokens, batch=batch, memory=memory, kv_dtype=dtype)
    report = calculate(model, request)
    ranks, fmt = stages(model, request.ranks), kv_format(dtype)

    def size(length: int, sequences: int) -> int:
        return rank_bytes(ranks, fmt, Load(tokens=length, batch=sequences))

    if report.max_tokens:
        assert size(report.max_tokens, batch) <= memory < size(report.max_tokens + 1, batch)
    if report.max_concurrency is not None:
        assert size(tokens, report.max_concurrency) <= memory
        assert memory < size(tokens, report.max_concurrency + 1)


@few
@given(models(), st.integers(1, 200), st.integers(0, 200), formats)
def test_generation_reads_are_the_sum_of_its_steps(
    model: ModelSpec, generated: int, prompt: int, dtype: str
) -> None:
    last = prompt + generated
    report = calculate(model, SizeRequest(tokens=last, prompt_tokens=prompt, kv_dtype=dtype))
    steps = range(prompt + 1, last + 1)
    sizes = (calculate(model, SizeRequest(tokens=t, kv_dtype=dtype)) for t in steps)
    assert report.cumulative_read_bytes == sum(r.decode_read_bytes for r in sizes)


def test_reads_grow_with_the_square_and_size_does_not() -> None:
    full = LayerCache(kind=FULL, num_heads=8, num_kv_heads=8, k_dim=64, v_dim=64)
    model = ModelSpec(
        name="full", model_type=None, layers=((full,),) * 4, max_model_len=None, weight_bytes=None
    )
    one, two = (calculate(model, SizeRequest(tokens=t)) for t in (10_000, 20_000))
    assert two.bytes == 2 * one.bytes
    assert 3.99 < two.cumulative_read_bytes / one.cumulative_read_bytes < 4
