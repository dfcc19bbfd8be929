"""A model and a request become a report; every figure is made in the file named after it."""

from __future__ import annotations

from dataclasses import replace

from kvtool.sizing import variants
from kvtool.sizing.assumptions import assumptions, effective
from kvtool.sizing.fit import fit
from kvtool.sizing.formats import check_fits, kv_format
from kvtool.sizing.formula import formula
from kvtool.sizing.layers import KVCacheSpec, LayerCache
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.parallel import stages
from kvtool.sizing.report import SizeReport
from kvtool.sizing.request import SizeRequest
from kvtool.sizing.sequence_bytes import (
    allocated_bytes,
    formula_bytes,
    growth_bytes,
    index_bytes,
    state_bytes,
    stored_bytes,
)
from kvtool.sizing.speed import speed
from kvtool.sizing.tables import group_table, layer_table


def calculate(model: ModelSpec, request: SizeRequest) -> SizeReport:
    """Raises `ConfigError` for a request the model cannot serve (a rank count, a format)."""
    fmt = kv_format(request.kv_dtype)
    model = as_requested(model, request)
    check_fits(fmt, [s.cache for s in model.groups])
    load, specs = request.load, model.groups
    main = tuple(s for s in specs if not s.cache.draft)
    draft = tuple(s for s in specs if s.cache.draft)
    reserved = max(request.max_model_len or model.max_model_len or 0, request.tokens)
    ranks = stages(model, request.ranks)
    fitted = fit(model, ranks, fmt, request)
    measured = speed(main, ranks[0], fmt, request)
    return SizeReport(
        model=_described(model),
        bytes=sum(formula_bytes(s, fmt, load) for s in main),
        indexer_bytes=sum(index_bytes(s, load) for s in main),
        mtp_bytes=sum(formula_bytes(s, fmt, load) + index_bytes(s, load) for s in draft),
        state_bytes=sum(state_bytes(s, load.batch) for s in main),
        allocated_bytes=sum(allocated_bytes(s, fmt, load) for s in specs),
        full_length_bytes=sum(allocated_bytes(_unwindowed(s), fmt, load) for s in specs),
        reserved_bytes=request.batch * sum(stored_bytes(s, fmt, reserved) for s in specs),
        bytes_per_token=sum(growth_bytes(s, fmt, request.tokens) for s in main),
        formula=formula(main, fmt, load),
        groups=group_table(specs, fmt, load),
        per_layer=layer_table(model, fmt, load),
        per_rank=fitted.per_rank,
        memory=fitted.memory,
        max_tokens=fitted.max_tokens,
        max_concurrency=fitted.max_concurrency,
        vllm_lines=fitted.vllm_lines,
        vllm_formula=fitted.vllm_formula,
        decode_read_bytes=measured.decode_read_bytes,
        cumulative_read_bytes=measured.cumulative_read_bytes,
        arithmetic_intensity=measured.arithmetic_intensity,
        ridge_point=measured.ridge_point,
        bandwidth_bound=measured.bandwidth_bound,
        decode_floor_ms=measured.decode_floor_ms,
        transfer_ms=measured.transfer_ms,
        variants=variants.sizes(main, fmt, load),
        assumptions=(*assumptions(model, request, fmt), *fitted.notes),
        effective=effective(request, fmt, reserved),
    )


def as_requested(model: ModelSpec, request: SizeRequest) -> ModelSpec:
    """Without draft layers, or with another encoder length, if the request says so."""
    layers = model.layers
    if not request.mtp:
        layers = tuple(row for row in layers if not any(c.draft for c in row))
    if request.encoder_tokens is not None:
        layers = tuple(tuple(_encoded(c, request.encoder_tokens) for c in row) for row in layers)
    return replace(model, layers=layers)


def _encoded(cache: LayerCache, tokens: int) -> LayerCache:
    return cache if cache.fixed_tokens is None else replace(cache, fixed_tokens=tokens)


def _unwindowed(spec: KVCacheSpec) -> KVCacheSpec:
    return replace(spec, cache=replace(spec.cache, window=None))


def _described(model: ModelSpec) -> dict[str, str | int | None]:
    return {
        "name": model.name,
        "model_type": model.model_type,
        "num_layers": len(model.layers) - model.num_draft_layers,
        "num_draft_layers": model.num_draft_layers,
        "max_model_len": model.max_model_len,
        "weight_bytes": model.weight_bytes,
    }
