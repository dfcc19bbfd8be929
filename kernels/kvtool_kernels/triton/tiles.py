"""Launch shapes of the attention kernel: fixed tables, for autotuning would change the numerics."""

from functools import cache
from typing import NamedTuple

import torch


class Tiles(NamedTuple):
    block_m: int  # query rows a program, at least 16 for tl.dot
    block_n: int  # keys a loop step
    num_warps: int
    num_stages: int


# (largest head_dim, shape): in bf16 and fp16 nothing spills on sm_80 and sm_90
PREFILL = (
    (64, Tiles(128, 64, 8, 2)),
    (128, Tiles(128, 32, 8, 2)),
    (256, Tiles(64, 32, 8, 1)),
    (1024, Tiles(32, 32, 8, 1)),
)
PREFILL_TURN = (  # the turned query stays in registers, and the loop is not pipelined
    (64, Tiles(64, 64, 4, 1)),
    (128, Tiles(64, 64, 8, 1)),
    (256, Tiles(32, 32, 8, 1)),
    (1024, Tiles(32, 32, 8, 1)),
)
DECODE = (
    (128, Tiles(32, 32, 4, 2)),
    (256, Tiles(32, 32, 4, 1)),
    (1024, Tiles(32, 32, 8, 1)),
)
FLOAT32 = (  # exact fp32 products
    (128, Tiles(16, 32, 4, 1)),
    (1024, Tiles(16, 16, 8, 1)),
)


def select_tiles(dtype: torch.dtype, head_dim: int, *, decode: bool, turn: bool) -> Tiles:
    table: tuple[tuple[int, Tiles], ...]
    if dtype == torch.float32:
        table = FLOAT32
    elif decode:
        table = DECODE
    else:
        table = PREFILL_TURN if turn else PREFILL
    for largest, tiles in table:
        if head_dim <= largest:
            return tiles
    raise AssertionError(f"head_dim {head_dim} is beyond the tables")


MAX_SPLITS = 32


def num_splits(device: torch.device, programs: int) -> int:
    """Programs to split one row's keys over, so that about two a processor run."""
    return max(1, min(2 * _num_processors(device) // programs, MAX_SPLITS))


@cache
def _num_processors(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).multi_processor_count
    return 2  # the interpreter
