"""Quantised keys moved 1, 10 and 100 times: turn the query, or rewrite and requantise the key."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch

from kvtool_kernels import Rotary, rotate, unit_rotation

MOVES = (1, 10, 100)  # how often a key has been moved when its error is taken
_dice = random.Random(0)
# What the moves are, in tokens. Equal ones let the errors of slow pairs add up: such a pair turns
# so little that it is rounded the same way again and again.
PATHS = {
    "37 each time": [37] * max(MOVES),
    "up to 2000, either way": [_dice.randint(-2000, 2000) for _ in range(max(MOVES))],
}
NUM_TOKENS, HEAD_DIM, THETA = 2048, 128, 500_000.0


def int8(key: torch.Tensor) -> torch.Tensor:
    """What is read back of keys [..., head_dim] kept in 8 bits with one scale a row."""
    scale = key.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
    return (key / scale).round() * scale


def fp8(key: torch.Tensor) -> torch.Tensor:
    """As `int8`, in e4m3."""
    scale = key.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 448
    return (key / scale).to(torch.float8_e4m3fn).to(torch.float32) * scale


def bf16(key: torch.Tensor) -> torch.Tensor:
    return key.to(torch.bfloat16).to(torch.float32)


STORAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bf16": bf16,
    "int8": int8,
    "fp8": fp8,
}


class MovedError(NamedTuple):
    """Relative L2 error of K against unquantised keys at the same position.

    unmoved: quantised once, not moved. query_side: the key that attention sees after all moves
    when it turns the query and leaves the stored key alone. rewrite: turned and requantised at
    every move.
    """

    storage: str
    moves: int
    unmoved: float
    query_side: float
    rewrite: float


def moved_errors(
    key: torch.Tensor, rotary: Rotary, storage: str, deltas: Sequence[int]
) -> list[MovedError]:
    """After 1, 10 and 100 of the moves `deltas`. key: fp32 [..., head_dim]."""
    store = STORAGES[storage]
    stored = rewritten = store(key)
    unmoved, position, rows = _relative_error(stored, key), 0, []
    for count, delta in enumerate(deltas, start=1):
        rewritten, position = store(_turned(rewritten, delta, rotary)), position + delta
        if count in MOVES:
            exact = _turned(key, position, rotary)
            seen = _seen_by_turned_queries(stored, position, rotary)
            errors = (_relative_error(found, exact) for found in (seen, rewritten))
            rows.append(MovedError(storage, count, unmoved, *errors))
    return rows


def _turned(key: torch.Tensor, delta: int, rotary: Rotary) -> torch.Tensor:
    return rotate(key, *unit_rotation(torch.tensor(delta), rotary.inv_freq), rotary)


def _seen_by_turned_queries(key: torch.Tensor, delta: int, rotary: Rotary) -> torch.Tensor:
    """The scores of unit queries, each turned by -delta, are the coordinates of the moved key."""
    return key @ _turned(torch.eye(key.shape[-1]), -delta, rotary).mT


def _relative_error(key: torch.Tensor, exact: torch.Tensor) -> float:
    return float((key - exact).norm() / exact.norm())


def run() -> Iterable[dict[str, Any]]:
    for source, key, rotary in (_random_keys(), _demo_keys()):
        for (path, deltas), storage in product(PATHS.items(), STORAGES):
            for row in moved_errors(key, rotary, storage, deltas):
                yield {"keys": source, "path": path, **row._asdict()}


def _random_keys() -> tuple[str, torch.Tensor, Rotary]:
    inv_freq = THETA ** -(torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    key = torch.randn(NUM_TOKENS, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    return "N(0, 1)", key, Rotary(inv_freq)


def _demo_keys() -> tuple[str, torch.Tensor, Rotary]:
    from kvtool.models.hf import PagedModel
    from kvtool.models.layout_probe import probe_layout
    from kvtool.models.load import load_model
    from kvtool.models.rope_facts import FAR, TEXT
    from kvtool.models.rope_places import stored_kv

    loaded = load_model(device="cpu", dtype="float32")
    paged = PagedModel(loaded.model)
    rotary = probe_layout(paged).rotary(0)
    assert rotary is not None
    layers = stored_kv(paged, loaded.tokenizer.encode(FAR + TEXT), 0)
    return f"{loaded.name}, all layers", torch.stack([kv.key for kv in layers]), rotary
