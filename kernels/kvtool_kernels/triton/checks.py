"""What the attention kernel takes for granted; a violation is the caller's bug, never a copy."""

import torch

from kvtool_kernels.rotary import Rotary, RotaryTable


def check_shapes(
    query: torch.Tensor, cache: torch.Tensor, out: torch.Tensor, latent_dim: int | None
) -> None:
    num_tokens, num_heads, head_dim = query.shape
    value_dim = head_dim if latent_dim is None else latent_dim
    assert latent_dim is None or latent_dim < head_dim, (latent_dim, head_dim)
    assert cache.dim() == 5 and cache.shape[4] == head_dim, (query.shape, cache.shape)
    assert num_heads % cache.shape[2] == 0, (num_heads, cache.shape)
    assert out.shape == (num_tokens, num_heads, value_dim), (out.shape, query.shape)
    assert query.dtype == cache.dtype == out.dtype, (query.dtype, cache.dtype, out.dtype)
    assert query.stride(2) == cache.stride(4) == out.stride(2) == 1
    assert query.device == cache.device == out.device


def check_tables(
    query: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    positions: torch.Tensor,
    entries: torch.Tensor,
    cu_entries: torch.Tensor,
    sinks: torch.Tensor | None,
) -> None:
    assert positions.shape == query.shape[:1] and cu_entries.shape == cu_seqlens_q.shape
    assert entries.dim() == 2 and entries.shape[1] == 5, entries.shape
    for table in (cu_seqlens_q, positions, entries, cu_entries):
        assert table.dtype == torch.int32, table.dtype
        assert table.is_contiguous() and table.device == query.device
    if sinks is not None:
        assert sinks.shape == query.shape[1:2] and sinks.is_contiguous()


def check_rotation(
    query: torch.Tensor, latent_dim: int | None, rope: Rotary | None, at_read: RotaryTable | None
) -> None:
    assert rope is None or at_read is None, "keys are cached with their rotation or without"
    if rope is not None:
        assert (latent_dim or 0) <= rope.start < rope.end <= query.shape[2]
        assert rope.inv_freq.dtype == torch.float64 and rope.inv_freq.device == query.device
        assert rope.inv_freq.is_contiguous()
    if at_read is not None:
        place, shape = at_read.rope, (len(at_read.cos), len(at_read.rope.inv_freq))
        assert (latent_dim or 0) <= place.start < place.end <= query.shape[2]
        for table in (at_read.cos, at_read.sin):
            assert table.dtype == torch.float32 and table.device == query.device
            assert table.shape == shape and table.is_contiguous()
