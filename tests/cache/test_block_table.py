from __future__ import annotations

import pytest

from kvtool.cache.block_table import BlockTable, Entry


def test_sixteen_tokens_take_one_entry_and_the_seventeenth_a_second() -> None:
    table = BlockTable()
    table.extend([7], 16, 16)
    assert table.entries.tolist() == [[7, 0, 0, 16, 0]]
    table.extend([3], 17, 16)
    assert [table.entry(i) for i in range(2)] == [Entry(7, 0, 0, 16, 0), Entry(3, 0, 16, 1, 0)]
    table.check_integrity()


def test_extend_fills_the_last_entry_first() -> None:
    table = BlockTable()
    table.extend([4], 2, 4)
    table.extend([], 3, 4)
    table.extend([9, 5], 11, 4)
    assert table.entries.tolist() == [[4, 0, 0, 4, 0], [9, 0, 4, 4, 0], [5, 0, 8, 3, 0]]
    assert (table.num_tokens, table.last_block, table.block_ids) == (11, 5, [4, 9, 5])
    table.check_integrity()


def test_many_entries_survive_growth() -> None:
    table = BlockTable()
    for end in range(1, 40):
        table.extend([100 + end], end, 1)
    table.check_integrity()
    assert table.block_ids == [100 + end for end in range(1, 40)]
    assert table.ids(3, 6).tolist() == [104, 105, 106]


@pytest.mark.report("S03")
def test_slots_follow_the_table_in_any_block_order() -> None:
    table = BlockTable()
    table.extend([7, 2, 5], 10, 4)
    assert table.slots(0, 10, 4).tolist() == [28, 29, 30, 31, 8, 9, 10, 11, 20, 21]
    assert table.slots(3, 5, 4).tolist() == [31, 8]
    assert table.slots(4, 4, 4).tolist() == []


def test_check_integrity_finds_a_gap() -> None:
    table = BlockTable()
    table.extend([0, 1], 8, 4)
    table.entries[1, 2] = 5
    with pytest.raises(AssertionError, match="does not continue"):
        table.check_integrity()
