from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cache.block_table import BlockTable, Entry
from kvtool.cache.gaps import gaps, num_blocks_between
from kvtool.reuse.run import Run


def test_sixteen_tokens_take_one_entry_and_the_seventeenth_a_second() -> None:
    table = BlockTable()
    table.extend([7], 16, 16)
    assert table.entries.tolist() == [[7, 0, 0, 16, 0]]
    table.extend([3], 17, 16)
    assert [table.entry(i) for i in range(2)] == [Entry(7, 0, 0, 16, 0), Entry(3, 0, 16, 1, 0)]
    table.check_integrity(16)


def test_extend_fills_the_last_entry_first() -> None:
    table = BlockTable()
    table.extend([4], 2, 4)
    table.extend([], 3, 4)
    table.extend([9, 5], 11, 4)
    assert table.entries.tolist() == [[4, 0, 0, 4, 0], [9, 0, 4, 4, 0], [5, 0, 8, 3, 0]]
    assert (table.num_tokens, table.last_block, table.block_ids) == (11, 5, [4, 9, 5])
    table.check_integrity(4)


def test_many_entries_survive_growth() -> None:
    table = BlockTable()
    for end in range(1, 40):
        table.extend([100 + end], end, 1)
    table.check_integrity(1)
    assert table.block_ids == [100 + end for end in range(1, 40)]
    assert table.ids(3, 6).tolist() == [104, 105, 106]


@pytest.mark.report("S03")
def test_slots_follow_the_table_in_any_block_order() -> None:
    table = BlockTable()
    table.extend([7, 2, 5], 10, 4)
    assert table.slots(np.arange(10), 4).tolist() == [28, 29, 30, 31, 8, 9, 10, 11, 20, 21]
    assert table.slots(np.array([3, 4, 9]), 4).tolist() == [31, 8, 21]
    assert table.slots(np.arange(0), 4).tolist() == []


def test_a_run_stands_between_own_blocks_at_any_position() -> None:
    table = BlockTable()
    table.extend([4, 9], 6, 4)
    table.add_run(Run(6, 13, 5, (20, 21, 22), 3), 4)
    assert table.num_filled(4) == 0
    table.extend([1], 15, 4)
    assert table.num_filled(4) == 2
    table.extend([2], 18, 4)
    table.check_integrity(4)
    assert table.entries.tolist() == [
        [4, 0, 0, 4, 0],
        [9, 0, 4, 2, 0],
        [20, 3, 6, 1, 5],
        [21, 0, 7, 4, 5],
        [22, 0, 11, 2, 5],
        [1, 0, 13, 4, 0],
        [2, 0, 17, 1, 0],
    ]
    assert table.own_ids().tolist() == [4, 9, 1, 2]
    assert table.slots(np.array([5, 6, 7, 12, 13, 17]), 4).tolist() == [37, 83, 84, 89, 4, 8]


def test_runs_may_follow_each_other_and_come_first() -> None:
    table = BlockTable()
    table.add_run(Run(0, 2, -5, (7,), 1), 4)
    table.add_run(Run(2, 8, 1, (3, 3), 1), 4)
    table.extend([5], 9, 4)
    table.check_integrity(4)
    starts_and_lengths = [row[1:4] for row in table.entries.tolist()]
    assert starts_and_lengths == [[1, 0, 2], [1, 2, 3], [0, 5, 3], [0, 8, 1]]
    table.clear()
    table.extend([1], 3, 4)
    assert table.entries.tolist() == [[1, 0, 0, 3, 0]]


@given(data=st.data(), block_size=st.integers(1, 5))
def test_any_mixture_tiles_and_takes_as_many_blocks_as_are_counted(
    data: st.DataObject, block_size: int
) -> None:
    table, runs, end = BlockTable(), [], 0
    for _ in range(data.draw(st.integers(0, 4))):
        start = end + data.draw(st.integers(0, 7))
        offset, length = data.draw(st.integers(0, block_size - 1)), data.draw(st.integers(1, 9))
        blocks = tuple(range(-(-(offset + length) // block_size)))
        runs.append(Run(start, start + length, data.draw(st.integers(-9, 9)), blocks, offset))
        end = start + length
    end += data.draw(st.integers(1, 7))
    cuts = data.draw(st.lists(st.integers(1, end), max_size=3))
    for stop in sorted({*cuts, end}):
        if any(run.start < stop < run.stop for run in runs) or stop <= table.num_tokens:
            continue
        room = -table.num_filled(block_size) % block_size
        counted = num_blocks_between(table.num_tokens, stop, runs, block_size, room)
        before = len(table.own_ids())
        for run in runs:
            if table.num_tokens <= run.start < stop:
                _extend(table, run.start, block_size)
                table.add_run(run, block_size)
        _extend(table, stop, block_size)
        table.check_integrity(block_size)
        assert len(table.own_ids()) - before == counted
    assert sum(b - a for a, b in gaps(0, end, runs)) == end - sum(r.num_tokens for r in runs)


def _extend(table: BlockTable, stop: int, block_size: int) -> None:
    room = -table.num_filled(block_size) % block_size
    count = num_blocks_between(table.num_tokens, stop, (), block_size, room)
    table.extend(range(count), stop, block_size)


def test_check_integrity_finds_a_gap() -> None:
    table = BlockTable()
    table.extend([0, 1], 8, 4)
    table.entries[1, 2] = 5
    with pytest.raises(AssertionError, match="does not continue"):
        table.check_integrity(4)
