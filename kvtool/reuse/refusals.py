"""When cached text must not be moved, each rule under its name."""

from __future__ import annotations

from typing import NamedTuple

SHORTER_THAN_MIN_RUN = "shorter_than_min_run"
DONOR_WITHOUT_BOS = "donor_without_bos"
DELTA_OFF_CHUNK = "delta_off_chunk"


class Limits(NamedTuple):
    """min_run: tokens a run must have; re-ordered short pieces are where moved text fails.

    bos_id: the token the model's tokenizer puts in front of every text, None where it has none;
    KV computed without it never saw the sink the model was trained with.
    delta_multiple: layers that attend within chunks (Llama 4) allow moves by whole chunks only.
    max_depth: donors a prompt token is compared with, at most 255.
    """

    min_run: int = 128
    bos_id: int | None = None
    delta_multiple: int = 1
    max_depth: int = 4


def refuse_donor(delta: int, first_token: int, limits: Limits) -> str | None:
    """Why text of a chain that begins with `first_token` must not move by `delta`."""
    if lacks_bos(first_token, limits.bos_id):
        return DONOR_WITHOUT_BOS
    return DELTA_OFF_CHUNK if is_off_chunk(delta, limits.delta_multiple) else None


def is_too_short(num_tokens: int, min_run: int) -> bool:
    return num_tokens < min_run


def lacks_bos(first_token: int, bos_id: int | None) -> bool:
    return bos_id is not None and first_token != bos_id


def is_off_chunk(delta: int, delta_multiple: int) -> bool:
    return delta % delta_multiple != 0
