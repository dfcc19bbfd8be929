"""What one GPU holds, and what fits into the memory it has for KV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from kvtool.sizing import budget
from kvtool.sizing.capacity import Stages, max_concurrency, max_tokens, rank_bytes
from kvtool.sizing.formats import KVFormat
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.parallel import tokens_on_rank
from kvtool.sizing.report import RankSize
from kvtool.sizing.request import VLLM_FORMULAS, SizeRequest
from kvtool.sizing.sequence_bytes import Load, allocated_bytes, formula_bytes

if TYPE_CHECKING:
    from kvtool.sizing import vllm


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Without a memory only `per_rank` has something to say."""

    per_rank: RankSize
    memory: Mapping[str, int | None] | None = None
    max_tokens: int | None = None
    max_concurrency: int | None = None
    vllm_lines: tuple[str, ...] = ()
    vllm_formula: str | None = None
    notes: tuple[str, ...] = ()


def fit(model: ModelSpec, stages: Stages, fmt: KVFormat, request: SizeRequest) -> Fit:
    load = _rank_load(request)
    sized = Fit(per_rank=_rank_size(stages, fmt, request, load))
    available = _budget(model, request)
    if available is None:
        return sized
    from kvtool.sizing import vllm

    tokens = max_tokens(stages, fmt, load, available.kv_bytes)
    sequences = max_concurrency(stages, fmt, load, available.kv_bytes)
    limits = vllm.EngineLimits(
        memory=available.kv_bytes,
        block_size=request.block_size,
        max_model_len=request.tokens,
        max_num_batched_tokens=request.max_num_batched_tokens,
        cp=request.cp,
    )
    startup = vllm.startup(stages, fmt, limits)
    return replace(
        sized,
        memory=asdict(available),
        max_tokens=None if tokens is None else tokens * request.cp,
        max_concurrency=sequences,
        vllm_lines=startup.lines(request.vllm_formula) if startup else (),
        vllm_formula=_formula_note(startup, request.vllm_formula) if startup else None,
        notes=_notes(tokens, startup),
    )


def _rank_load(request: SizeRequest) -> Load:
    return replace(
        request.load,
        tokens=tokens_on_rank(request.tokens, request.ranks),
        shared=request.prefix_share // request.cp,
    )


def _rank_size(stages: Stages, fmt: KVFormat, request: SizeRequest, load: Load) -> RankSize:
    held = [sum(allocated_bytes(s, fmt, load) for s in specs) for specs in stages]
    return RankSize(
        ranks=request.ranks.total,
        bytes=max(
            sum(formula_bytes(s, fmt, load) for s in specs if not s.cache.draft) for specs in stages
        ),
        allocated_bytes=rank_bytes(stages, fmt, load),
        all_ranks_bytes=sum(held) * request.tp * request.cp,
    )


def _budget(model: ModelSpec, request: SizeRequest) -> budget.Budget | None:
    if request.memory is not None:
        return budget.given(request.memory)
    if request.gpu is None:
        return None
    weights = model.weight_bytes if request.weights is None else request.weights
    return budget.on_gpu(request.gpu, request.utilization, weights, request.overhead, request.ranks)


def _formula_note(startup: vllm.Startup, used: str) -> str:
    other = next(name for name in VLLM_FORMULAS if name != used)
    says, would_say = startup.tokens(used), startup.tokens(other)
    note = f"{used}: {VLLM_FORMULAS[used]}"
    if says == would_say:
        return f"{note}; the {other} formula says the same"
    return f"{note}; {other} ({VLLM_FORMULAS[other]}) would say {would_say:,} tokens"


def _notes(tokens: int | None, startup: vllm.Startup | None) -> tuple[str, ...]:
    notes = []
    if tokens is None:
        notes.append("no length fills this memory: nothing grows with the number of tokens")
    if startup is None:
        notes.append("no vLLM lines: its page layout for this mix of layers is not known here")
    return tuple(notes)
