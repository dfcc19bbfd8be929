"""The unit rotation R(delta) that carries a key from one position to another.

RoPE (Su et al., "RoFormer", 2021) turns pair i of a head by `position * inv_freq[i]`, so
`R(a) R(b) = R(a + b)` and a key rotated for position h belongs at h + delta after R(delta).
A magnitude that the model puts on q and k (YaRN, LongRoPE) is in the cached key already and is
never applied again: R(delta) preserves the norm.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class Rotary(NamedTuple):
    """Which values of a head are rotated, how they pair, and how fast.

    inv_freq: float64 [rotary_dim / 2], radians a position.
    interleaved: pairs are (0, 1), (2, 3), … (GPT-J); otherwise (0, n/2), (1, n/2 + 1), … of the
    rotary_dim values (GPT-NeoX, Llama).
    start: the first rotated value of the head (MLA: latent_dim).
    """

    inv_freq: torch.Tensor
    interleaved: bool = False
    start: int = 0

    @property
    def end(self) -> int:
        return self.start + 2 * len(self.inv_freq)


class RotaryTable(NamedTuple):
    """R(position) of every position, for keys that are cached without it.

    cos, sin: fp32 [num_positions, rotary_dim / 2], from `unit_rotation`: no magnitude.
    """

    rope: Rotary
    cos: torch.Tensor
    sin: torch.Tensor

    @classmethod
    def of(cls, rope: Rotary, num_positions: int) -> RotaryTable:
        positions = torch.arange(num_positions, device=rope.inv_freq.device)
        return cls(rope, *unit_rotation(positions, rope.inv_freq))


def unit_rotation(
    deltas: torch.Tensor, inv_freq: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of delta * inv_freq as fp32 [*deltas.shape, rotary_dim / 2].

    The product and its reduction are float64: in fp32 an angle near 131,000 radians is off by
    up to 4e-3.
    """
    assert inv_freq.dtype == torch.float64, inv_freq.dtype
    angles = deltas.to(torch.float64).unsqueeze(-1) * inv_freq
    return angles.cos().to(torch.float32), angles.sin().to(torch.float32)


def rotate(
    values: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, rope: Rotary
) -> torch.Tensor:
    """Turn the rotated values of each head; fp32 [..., head_dim], the others pass through.

    cos, sin [..., rotary_dim / 2] broadcast against values [..., head_dim]; to turn backwards
    give -sin.
    """
    values = values.to(torch.float32)
    part = values[..., rope.start : rope.end]
    if rope.interleaved:
        first, second = part[..., 0::2], part[..., 1::2]
    else:
        first, second = part.chunk(2, dim=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    joined = torch.stack(turned, dim=-1).flatten(-2) if rope.interleaved else torch.cat(turned, -1)
    if joined.shape[-1] == values.shape[-1]:
        return joined
    return torch.cat((values[..., : rope.start], joined, values[..., rope.end :]), dim=-1)
