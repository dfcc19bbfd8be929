"""Which rows are fed to choose tokens, and for which runs at once."""

from __future__ import annotations

import pytest
from reuse.texts import SIZE, run

from kvtool.reuse.plan import Plan, make_plan
from kvtool.reuse.probe import QUERY_ROWS, Candidates, make_probe
from kvtool.reuse.repair import parse_repair


def plan(repair: str, num_tokens: int, *spans: tuple[int, int]) -> Plan:
    runs = [run(start, stop, 3) for start, stop in spans]
    return make_plan(num_tokens, 0, runs, parse_repair(repair), SIZE)


def test_the_prompts_own_rows_behind_a_run() -> None:
    probe = make_probe(plan("attn:0.25", 130, (10, 50)), "attn", 10)
    assert probe.candidates == (Candidates(10, 50, 10, 10),)
    assert probe.positions.tolist() == list(range(50, 130)) and probe.positions.dtype == "int64"


def test_a_sinks_first_block_is_no_candidate_but_counts_for_the_index() -> None:
    at_sink = run(0, 20, -8)
    made = make_plan(30, 0, [at_sink], parse_repair("attn:0.25"), SIZE)
    probe = make_probe(made, "attn", SIZE)
    assert probe.candidates == (Candidates(SIZE, 20, 0, (20 - SIZE) // 4),)


def test_runs_that_few_rows_keep_apart_share_a_probe() -> None:
    made = plan("attn:0.5", 400, (10, 50), (60, 90), (95, 99))
    probe = make_probe(made, "attn", 10)
    assert [c.start for c in probe.candidates] == [10, 60, 95]
    assert probe.positions.tolist() == [*range(50, 60), *range(90, 95), *range(99, 400)]
    behind = make_probe(made, "attn", 60)  # those in front are chosen from already
    assert behind.candidates == probe.candidates[1:]


@pytest.mark.parametrize(("gap", "shared"), [(QUERY_ROWS, 2), (QUERY_ROWS + 1, 1)])
def test_the_rows_of_a_probe_are_bounded(gap: int, shared: int) -> None:
    second = 50 + gap
    made = plan("attn:0.5", second + 3000, (10, 50), (second, second + 40))
    probe = make_probe(made, "attn", 10)
    assert len(probe.candidates) == shared
    assert len(probe.positions) == (gap if shared == 2 else 0) + QUERY_ROWS
    assert probe.positions[0] == 50


@pytest.mark.parametrize("rule", ["vdev", "kdev"])
def test_deviation_asks_the_runs_own_tokens_one_run_at_a_time(rule: str) -> None:
    made = plan(f"{rule}:0.25", 400, (10, 50), (60, 90))
    for start, stop, count in ((10, 50, 10), (60, 90, 8)):
        probe = make_probe(made, rule, start)
        assert probe.candidates == (Candidates(start, stop, start, count),)
        assert probe.positions.tolist() == list(range(start, stop))
