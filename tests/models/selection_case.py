"""A prompt with moved runs on pages, and the same as dense tensors."""

from __future__ import annotations

from collections.abc import Sequence

import tiny
import torch
from models.dense_model import Dense, dense_forward, turned
from paged_run import BLOCK_SIZE, Extent, Feed, PagedRun, Table

from kvtool.models.inputs import ForwardInputs, GroupInputs
from kvtool.models.layout_probe import probe_layout
from kvtool.reuse.probe import Candidates

# Prompt [0, 60): context, a run of 20, rows of its own, a run of 17, the question. All runs move
# by multiples of 8, which chunks need.
CONTEXT, FIRST, SECOND, LENGTH = 10, (10, 30), (34, 51), 60
DONORS = ((18, -8), (10, 24))  # where each run stood, and how far it moved: home + delta = start
PROMPT = [(37 * i * i + 11 * i + 5) % 120 + 3 for i in range(LENGTH)]
BETWEEN, QUESTION = range(FIRST[1], SECOND[0]), range(SECOND[1], LENGTH)


class SelectionCase:
    """run.paged has the context exact, both runs as their donors left them, nothing else.

    unrotated: its pools hold keys without their rotation; the dense tensors have it anyway.
    """

    def __init__(self, name: str, *, unrotated: bool = False, **settings: object) -> None:
        self.run = PagedRun(tiny.build(name, **settings), check=False)
        self.paged = self.run.paged
        self.layout = probe_layout(self.paged)
        self.paged.use_layout(self.layout, unrotated=LENGTH if unrotated else None)
        context = self.run.ragged_table(CONTEXT).cut(CONTEXT)
        self.run.step(Feed(PROMPT, context, 0, CONTEXT))
        self.stale_keys, self.stale_values = self._exact(PROMPT, 0)
        self.exact_keys = [key.clone() for key in self.stale_keys]
        self.exact_values = [value.clone() for value in self.stale_values]
        first, second = (self._donate(*run) for run in zip((FIRST, SECOND), DONORS))
        self.table = context + first + self._own(BETWEEN) + second + self._own(QUESTION)

    def inputs(self, positions: Sequence[int]) -> ForwardInputs:
        """Rows of the prompt; those of runs come with the slots of their donors."""
        slots = self.table.slots()
        entries = torch.tensor(self.table.entries(positions[-1] + 1), dtype=torch.int32)
        group = GroupInputs(
            slots=torch.tensor([slots[position] for position in positions]),
            entries=entries,
            cu_entries=torch.tensor([0, len(entries)], dtype=torch.int32),
        )
        return ForwardInputs(
            token_ids=torch.tensor([PROMPT[position] for position in positions]),
            positions=torch.tensor(list(positions)),
            logits_rows=torch.tensor([0]),
            cu_seqlens_q=torch.tensor([0, len(positions)], dtype=torch.int32),
            max_query_len=len(positions),
            groups=(group,) * len(self.paged.groups),
        )

    def blocks_of(self, positions: Sequence[int]) -> list[tuple[int, int]]:
        slots = self.table.slots()
        return [divmod(slots[position], BLOCK_SIZE) for position in positions]

    def _own(self, positions: range) -> Table:
        return self.run.ragged_table(len(positions)).cut(len(positions))

    def _exact(self, tokens: Sequence[int], first: int) -> tuple[Dense, Dense]:
        cache = dense_forward(self.paged, tokens, range(first, first + len(tokens)))
        return cache.keys, cache.values

    def _donate(self, run: tuple[int, int], donor: tuple[int, int]) -> Table:
        """Compute the run's tokens behind other ones; move them, densely too."""
        (start, stop), (home, delta) = run, donor
        other = [(53 * i + 7 * delta) % 120 + 3 for i in range(home)]
        tokens = [*other, *PROMPT[start:stop]]
        table = self.run.ragged_table(len(tokens))
        self.run.step(Feed(tokens, table, 0, len(tokens)))
        self.stale_keys, self.stale_values = (list(d) for d in (self.stale_keys, self.stale_values))
        for layer, (keys, values) in enumerate(zip(*self._exact(tokens, 0), strict=True)):
            rotary = self.layout.rotary(layer)
            if self.paged.layers[layer].is_latent:  # K is the latent, V the row that turns
                assert rotary is not None
                rotary = rotary._replace(start=0)
                values = turned(values, delta, rotary)
            else:
                keys = turned(keys, delta, rotary)
            self.stale_keys[layer][start:stop] = keys[home:]
            self.stale_values[layer][start:stop] = values[home:]
        slots = table.slots()[home : len(tokens)]
        parts = [Extent(slot // BLOCK_SIZE, slot % BLOCK_SIZE, 1, delta) for slot in slots]
        return Table(tuple(parts))


def candidates(first: int, second: int, leading: int = 0) -> tuple[Candidates, Candidates]:
    """So many of each run's tokens; `leading` of the first are not to choose from."""
    return (
        Candidates(FIRST[0] + leading, FIRST[1], FIRST[0], first),
        Candidates(SECOND[0], SECOND[1], SECOND[0], second),
    )
