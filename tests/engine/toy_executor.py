"""An executor whose next token depends on every slot that the tables let it read.

The "KV" of a slot is (token, position, state): `state` folds the states, tokens and positions of
the whole prefix as it was read when the slot was written, as deep layers do. A wrong block, a
stale slot, a missing copy or a block computed behind another prefix changes the reply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, SampledToken, ScheduledRequest, StepOutput

POISON = -7
_MASK = (1 << 63) - 1


def toy_groups(number: int) -> tuple[GroupSpec, ...]:
    return tuple(
        GroupSpec(layers=(g,), kind="kv", num_kv_heads=1, head_dim=4, dtype="float32")
        for g in range(number)
    )


def fold(state: int, token: int, position: int, group: int) -> int:
    return (
        state * 6364136223846793005 + token * 1442695040888963407 + position * 977 + group
    ) & _MASK


def pick(kv: Sequence[np.ndarray], vocab_size: int) -> int:
    """kv: per group int64 [num_tokens, 3], in order of position."""
    digest = hashlib.blake2b(b"".join(rows.tobytes() for rows in kv), digest_size=8).digest()
    return int.from_bytes(digest, "little") % vocab_size


def expected_reply(
    prompt: Sequence[int], length: int, num_groups: int, vocab_size: int
) -> list[int]:
    """What an engine without any cache would say."""
    tokens = list(prompt)
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(num_groups)]
    for _ in range(length):
        for group, kv in enumerate(rows):
            for position in range(len(kv), len(tokens)):
                state = kv[-1][2] if kv else 0
                kv.append(
                    (tokens[position], position, fold(state, tokens[position], position, group))
                )
        tokens.append(pick([np.array(kv, dtype=np.int64) for kv in rows], vocab_size))
    return tokens[len(prompt) :]


class ToyExecutor:
    def __init__(self, num_groups: int, num_blocks: int, block_size: int, vocab_size: int) -> None:
        self.groups = toy_groups(num_groups)
        self.vocab_size = vocab_size
        self.block_size = block_size
        self.kv = np.full((num_groups, num_blocks, block_size, 3), POISON, dtype=np.int64)
        self.computed_tokens = 0

    def execute(self, batch: Batch) -> StepOutput:
        assert not batch.is_empty, "an empty step"
        for group, copies in enumerate(batch.copies):
            for source, target, num_slots in copies.tolist():
                self.kv[group, target] = POISON
                self.kv[group, target, :num_slots] = self.kv[group, source, :num_slots]
        for scheduled in batch.requests:
            self._poison_new_blocks(scheduled)
        for scheduled in batch.requests:
            self._store(scheduled)
        tokens = {s.request.id: SampledToken(self._next_id(s)) for s in batch.requests if s.sample}
        for kv, merges in zip(self.kv, batch.merges):
            self._merge(kv.reshape(-1, 3), merges)
        return tokens

    def _merge(self, slots: np.ndarray, merges: np.ndarray) -> None:
        """No mean of numbers that are hashes, but like one: what was in the slots is in it."""
        for source, target, _, number in merges.tolist():
            assert slots[source, 0] != POISON, "a copy that is not there"
            if number == 1:
                slots[target] = slots[source]
            else:
                token, position, state = slots[target].tolist()
                assert token == slots[source, 0], "a copy of other text"
                slots[target, 2] = fold(state, int(slots[source, 2]), position, number)

    def close(self) -> None:
        pass

    def _poison_new_blocks(self, scheduled: ScheduledRequest) -> None:
        for kv, slots in zip(self.kv, scheduled.slots):
            first = slots[(slots >= 0) & (slots % self.block_size == 0)]
            kv[first // self.block_size] = POISON

    def _store(self, scheduled: ScheduledRequest) -> None:
        self.computed_tokens += scheduled.num_tokens
        assert len(scheduled.token_ids) == scheduled.num_tokens > 0
        cached = scheduled.positions < scheduled.request.kv.num_cached
        for group, slots in enumerate(scheduled.slots):
            assert ((slots < 0) == cached).all(), "cached slots are read, all others written"
            flat = self.kv[group].reshape(-1, 3)
            where = self._where(scheduled, group)
            tokens = zip(scheduled.positions.tolist(), scheduled.token_ids.tolist())
            for i, (position, token) in enumerate(tokens):
                if slots[i] >= 0:
                    assert slots[i] == where[position]
                    state = int(flat[where[position - 1], 2]) if position else 0
                    flat[slots[i]] = token, position, fold(state, token, position, group)

    def _where(self, scheduled: ScheduledRequest, group: int) -> np.ndarray:
        """The slot of each position, as the entries tell it; they must tile [0, end).

        KV of other positions (delta) is read as it is: a reply that rests on it betrays itself.
        """
        entries = scheduled.entries[group].astype(np.int64)
        blocks, offsets, starts, lengths, deltas = entries.T
        ends = np.cumsum(lengths)
        assert (starts == ends - lengths).all() and ends[-1] == scheduled.end
        assert scheduled.request.kv.shift is not None or not deltas.any()
        first_slots = blocks * self.block_size + offsets - starts
        return np.repeat(first_slots, lengths) + np.arange(scheduled.end)

    def _next_id(self, scheduled: ScheduledRequest) -> int:
        kv = [
            self.kv[group].reshape(-1, 3)[self._where(scheduled, group)]
            for group in range(len(self.groups))
        ]
        return pick(kv, self.vocab_size)
