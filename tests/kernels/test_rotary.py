"""The shared rotation against transformers' RoPE."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as apply_interleaved
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as apply_half

from kvtool_kernels import Rotary, rotate, unit_rotation


def inverse_frequencies(rotary_dim: int) -> torch.Tensor:
    return 10000.0 ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)


def test_half_split_pairs_are_those_of_llama() -> None:
    keys, inv_freq = torch.randn(1, 2, 7, 16), inverse_frequencies(16)
    cos, sin = unit_rotation(torch.arange(3, 10), inv_freq)
    theirs, _ = apply_half(keys, keys, *(torch.cat((t, t), -1)[None] for t in (cos, sin)))
    torch.testing.assert_close(rotate(keys, cos, sin, Rotary(inv_freq)), theirs)


def test_interleaved_pairs_are_those_of_gptj() -> None:
    keys, inv_freq = torch.randn(1, 7, 2, 16), inverse_frequencies(16)
    cos, sin = unit_rotation(torch.arange(3, 10), inv_freq)
    theirs = apply_interleaved(keys, sin[None], cos[None])
    rope = Rotary(inv_freq, interleaved=True)
    torch.testing.assert_close(rotate(keys, cos[:, None], sin[:, None], rope), theirs)


ROPE_TYPES: dict[str, dict[str, float]] = {
    "default": {},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}


@pytest.mark.report("S21")
@pytest.mark.parametrize("rope_type", ROPE_TYPES)
def test_a_moved_key_equals_one_computed_in_place(rope_type: str) -> None:
    """YaRN puts a magnitude on cached keys; moving one from 5 to 9 turns it and no more."""
    parameters = {"rope_type": rope_type, "rope_theta": 10000.0, **ROPE_TYPES[rope_type]}
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=256,
        rope_parameters=parameters,
    )
    embedding = LlamaRotaryEmbedding(config)
    raw = torch.randn(1, 2, 1, 32)

    def key_at(position: int) -> torch.Tensor:
        cos, sin = embedding(raw, torch.tensor([[position]]))
        return apply_half(raw, raw, cos, sin)[0]

    inv_freq = embedding.inv_freq.double()
    moved = rotate(key_at(5), *unit_rotation(torch.tensor([4]), inv_freq), Rotary(inv_freq))
    torch.testing.assert_close(moved, key_at(9), atol=2e-6, rtol=2e-6)
    torch.testing.assert_close(moved.norm(), key_at(5).norm())


def test_angles_are_reduced_in_float64() -> None:
    """131,000 radians: fp32 products would be off by 4e-3."""
    deltas = torch.tensor([131_000, -131_071])
    cos, sin = unit_rotation(deltas, torch.tensor([1.0, 0.7234567890123], dtype=torch.float64))
    exact = deltas.double()[:, None] * torch.tensor([1.0, 0.7234567890123], dtype=torch.float64)
    torch.testing.assert_close(cos.double(), exact.cos(), atol=1e-7, rtol=0)
    torch.testing.assert_close(sin.double(), exact.sin(), atol=1e-7, rtol=0)


def test_values_outside_the_rotated_range_pass_through() -> None:
    keys = torch.randn(3, 16)
    rope = Rotary(inverse_frequencies(8), start=4)
    turned = rotate(keys, *unit_rotation(torch.tensor([1, 2, 3]), rope.inv_freq), rope)
    assert torch.equal(turned[:, :4], keys[:, :4]) and torch.equal(turned[:, 12:], keys[:, 12:])
    assert not torch.equal(turned[:, 4:12], keys[:, 4:12])
