"""What decoding reads, whether memory is its limit, and how long moving the cache takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.gpus import GPU, gpu
from kvtool.sizing.layers import KVCacheSpec
from kvtool.sizing.parallel import tokens_on_rank
from kvtool.sizing.reads import generation_reads, step_reads
from kvtool.sizing.request import SizeRequest
from kvtool.sizing.roofline import arithmetic_intensity, is_bandwidth_bound
from kvtool.sizing.sequence_bytes import stored_bytes
from kvtool.sizing.transfer import transfer_ms

Specs = tuple[KVCacheSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    decode_read_bytes: int
    cumulative_read_bytes: int
    arithmetic_intensity: float | None
    ridge_point: float | None
    bandwidth_bound: bool | None
    decode_floor_ms: float | None
    transfer_ms: Mapping[str, float]


def speed(main: Specs, rank: Specs, fmt: KVFormat, request: SizeRequest) -> Speed:
    """main: the whole model. rank: one GPU's share, which decides intensity and step time."""
    tokens, batch = request.tokens, request.batch
    first = min(request.prompt_tokens + 1, tokens)
    device = gpu(request.gpu) if request.gpu else None
    intensity = arithmetic_intensity(rank, fmt, tokens)
    return Speed(
        decode_read_bytes=batch * sum(step_reads(s, fmt, tokens) for s in main),
        cumulative_read_bytes=batch * sum(generation_reads(s, fmt, first, tokens) for s in main),
        arithmetic_intensity=intensity,
        ridge_point=device.ridge_point if device else None,
        bandwidth_bound=is_bandwidth_bound(intensity, device),
        decode_floor_ms=_floor_ms(rank, fmt, request, device) if device else None,
        transfer_ms=transfer_ms(
            batch * sum(stored_bytes(s, fmt, tokens) for s in main), request.link_bandwidth
        ),
    )


def _floor_ms(rank: Specs, fmt: KVFormat, request: SizeRequest, device: GPU) -> float:
    """Time to read one rank's KV once; the weights it also reads are not in it."""
    tokens = tokens_on_rank(request.tokens, request.ranks)
    main = [s for s in rank if not s.cache.draft]
    read = request.batch * sum(step_reads(s, fmt, tokens) for s in main)
    return read / device.bandwidth * 1000
