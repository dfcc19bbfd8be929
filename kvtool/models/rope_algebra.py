"""Rotations add: R(a) R(b) = R(a + b), in exact numbers and as far as computers round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from kvtool.models.rope_fact import Fact, Measured
from kvtool_kernels import Rotary, rotate, unit_rotation

# Relative L2 that three roundings in the dtype may leave; in float64, what angles near a million
# radians do.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


class TurnedKeys(NamedTuple):
    """Keys as a layer stores them, [T, num_kv_heads, head_dim], and what turns them."""

    key: torch.Tensor
    rotary: Rotary


def rotations_add(keys: Sequence[TurnedKeys], steps: Sequence[tuple[int, int]]) -> Fact:
    """keys: one a kind of layer. steps: (a, b) in tokens. The worst of all is reported."""
    cases = [(turned, a, b) for turned in keys for a, b in steps]
    dtype = keys[0].key.dtype
    stored = [_stored_errors(*case) for case in cases]
    difference, twice, once = (max(errors) for errors in zip(*stored, strict=True))
    what = f"keys stored as {_name(dtype)}"
    return Fact(
        "rotations add",
        "A key turned by a and then by b is the key turned by a + b at once, so a key computed "
        "at one position serves at any other.",
        (
            *(_sums(cases, arithmetic) for arithmetic in ROUNDING if arithmetic != torch.float16),
            Measured(f"{what}: turned by a, then b, against a+b", difference, ROUNDING[dtype]),
            Measured(f"{what}: turned by a, then b, against float64", twice),
            Measured(f"{what}: turned by a+b, against float64", once),
            Measured(
                "angles in float32, as models have them: R(a)R(b) against R(a+b)",
                max(_angle_error(*case) for case in cases),
            ),
        ),
    )


class _Pairs(NamedTuple):
    """The turned values of keys as pairs, [..., rotary_dim / 2] each."""

    first: torch.Tensor
    second: torch.Tensor

    @classmethod
    def of(cls, turned: TurnedKeys) -> _Pairs:
        """In float64."""
        rotary = turned.rotary
        part = turned.key[..., rotary.start : rotary.end].to(torch.float64)
        return cls(
            *((part[..., 0::2], part[..., 1::2]) if rotary.interleaved else part.chunk(2, -1))
        )

    def turned(self, angles: torch.Tensor, dtype: torch.dtype) -> _Pairs:
        """With cosines, sines, products and results in `dtype`."""
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        first, second = self.first.to(dtype), self.second.to(dtype)
        return _Pairs(first * cos - second * sin, second * cos + first * sin)

    def distance(self, other: _Pairs) -> float:
        """Relative L2."""
        one, two = (torch.cat(pairs, -1).to(torch.float64) for pairs in (self, other))
        return float((one - two).norm() / two.norm())


def _sums(cases: Sequence[tuple[TurnedKeys, int, int]], dtype: torch.dtype) -> Measured:
    errors = []
    for turned, a, b in cases:
        pairs, inv_freq = _Pairs.of(turned), turned.rotary.inv_freq
        twice = pairs.turned(a * inv_freq, dtype).turned(b * inv_freq, dtype)
        errors.append(twice.distance(pairs.turned((a + b) * inv_freq, dtype)))
    return Measured(f"{_name(dtype)}: R(a)R(b) against R(a+b)", max(errors), ROUNDING[dtype])


def _angle_error(turned: TurnedKeys, a: int, b: int) -> float:
    inv_freq = turned.rotary.inv_freq.to(torch.float32)
    first, second, both = ((step * inv_freq).to(torch.float64) for step in (a, b, a + b))
    pairs = _Pairs.of(turned)
    twice = pairs.turned(first, torch.float64).turned(second, torch.float64)
    return twice.distance(pairs.turned(both, torch.float64))


def _stored_errors(turned: TurnedKeys, a: int, b: int) -> tuple[float, float, float]:
    """Turned twice against once; twice and once against the exact rotation."""
    twice = _Pairs.of(_moved(_moved(turned, a), b))
    once = _Pairs.of(_moved(turned, a + b))
    exact = _Pairs.of(turned).turned((a + b) * turned.rotary.inv_freq, torch.float64)
    return twice.distance(once), twice.distance(exact), once.distance(exact)


def _moved(turned: TurnedKeys, delta: int) -> TurnedKeys:
    """As `rope_shift` does it: turned in fp32, stored in the dtype of the keys."""
    key, rotary = turned
    cos, sin = unit_rotation(torch.tensor(delta, device=key.device), rotary.inv_freq)
    return TurnedKeys(rotate(key, cos, sin, rotary).to(key.dtype), rotary)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
