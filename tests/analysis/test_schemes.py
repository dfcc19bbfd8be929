"""What reuse schemes find and save, against comparing every prompt with every earlier one."""

import numpy as np
import pytest
from analysis import oracle
from analysis.small_traces import IDS, Turn, accesses_of, prepared, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.analysis.hit_rates import hit_rates
from kvtool.analysis.measurable import why_not_moved
from kvtool.analysis.schemes import SchemeRules, scheme_uses
from kvtool.errors import ConfigError
from kvtool.reuse.choose import choose
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import Repair, parse_repair
from kvtool.reuse.run import Run
from kvtool.traces.prepared import Unit

SIZE = 2
UNIT = Unit(1, SIZE)


def rules(repair, min_run):
    return SchemeRules(parse_repair(repair), Limits(min_run=min_run, max_depth=255), 1000)


@st.composite
def texts(draw):
    """Prompts that take pieces of earlier ones to other places."""
    turns: list[Turn] = []
    for _ in range(draw(st.integers(1, 6))):
        symbols = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
        for earlier in draw(st.lists(st.sampled_from(turns), max_size=2)) if turns else []:
            start = draw(st.integers(0, len(earlier.symbols)))
            symbols += earlier.symbols[start : start + draw(st.integers(1, 12))]
            symbols += draw(st.lists(st.integers(0, 5), max_size=3))
        turns.append(Turn(symbols, draw(st.sampled_from([b"", b"", b"other"]))))
    return turns


class Expected:
    """One scheme over a trace, by comparing with every prompt before."""

    def __init__(self, turns, repair, min_run, *, aligned, moves=True):
        self.found = self.net = self.moved = 0
        every, exact = [], []
        for turn in turns:
            prompt = turn.symbols
            mine = [t for namespace, t in every if namespace == turn.namespace]
            donors = [t for namespace, t in exact if namespace == turn.namespace]
            hit, exact_hit = (longest(prompt, texts, aligned) for texts in (mine, donors))
            first = min(hit, len(prompt) - 1)
            self.found += hit
            self.net += hit
            end = len(prompt) if hit == exact_hit else longest(prompt, donors, False)
            if moves:
                rules = {"size": SIZE, "min_run": min_run, "aligned": aligned}
                places = oracle.moved_places(prompt, first, mine, **rules)
                self.found += len({at for a, b, _ in places for at in range(max(a, hit), b)})
                places = oracle.moved_places(prompt, first, donors, **rules)
                runs = [Run(start, stop, delta, (0,) * 99, 0) for start, stop, delta in places]
                chosen = choose(sorted(runs), repair, min_run, SIZE)
                for run in chosen:
                    reused = run.num_tokens - repair.cost(run.num_tokens, run.at_sink, SIZE)
                    self.net += reused
                    self.moved += reused if run.delta else 0
                if chosen:
                    end = min(end, chosen[0].start)
            every.append((turn.namespace, prompt))
            exact.append((turn.namespace, prompt[:end]))


def longest(prompt, texts, aligned):
    shared = [oracle.common_prefix(prompt, text) for text in texts]
    return max([length // SIZE * SIZE if aligned else length for length in shared], default=0)


CASES = [("none", 2), ("first:1", 3), ("first:2", 4)]


@pytest.mark.parametrize(("repair", "min_run"), CASES)
@given(texts())
@settings(max_examples=60)
def test_moved_text(repair, min_run, turns):
    names = ("shift-grid", "shift-any")
    uses = scheme_uses(prepared(turns, UNIT), UNIT, names, rules=rules(repair, min_run))
    for use, aligned in zip(uses, (True, False)):
        wanted = Expected(turns, parse_repair(repair), min_run, aligned=aligned)
        assert (use.found_tokens, use.net_tokens) == (wanted.found, wanted.net), use.scheme
        assert use.moved_tokens == wanted.moved, use.scheme


@given(texts())
@settings(max_examples=30)
def test_exact_prefixes(turns):
    uses = scheme_uses(prepared(turns, UNIT), UNIT, ("chain", "radix"))
    for use, aligned in zip(uses, (True, False)):
        wanted = Expected(turns, Repair("none"), 2, aligned=aligned, moves=False)
        assert use.found_tokens == use.net_tokens == wanted.found
        assert (use.moved_tokens, use.extra_bytes) == (0, 0)


@given(traces())
@settings(max_examples=30)
def test_chain_is_the_cold_token_rate(trace):
    turns, unit = trace
    (use,) = scheme_uses(prepared(turns, unit), unit, ["chain"])
    rate = hit_rates(accesses_of(turns, unit))["token_cold"]
    if unit.tokens_per_symbol == 1:
        assert (use.found_tokens, use.prompt_tokens) == rate[1:3]
    assert use.prompt_tokens == rate.denominator


def test_a_document_behind_another_head():
    document = list(range(100, 400))
    turns = [Turn([1, *range(10, 47), *document]), Turn([1, *range(50, 66), *document, 9])]
    unit = Unit(1, 16)
    chain, radix, grid, anywhere = scheme_uses(prepared(turns, unit), unit)
    assert (chain.found_tokens, radix.found_tokens, grid.found_tokens) == (0, 1, 0)
    assert anywhere.found_tokens == 1 + 300
    assert anywhere.net_tokens == 1 + 300 - 80  # a quarter, in whole blocks
    assert anywhere.moved_tokens == 220
    assert anywhere.net_token_rate == 221 / (338 + 318)


def test_text_behind_a_moved_run_is_gone_on_from_and_no_donor():
    document, fresh = list(range(100, 164)), list(range(200, 264))
    prompt = [2, 3, *document, *fresh]
    turns = [Turn([1, 4, *document]), Turn(prompt), Turn([*prompt, 5]), Turn([7, 8, *fresh, 6])]
    for last, found, net in ((2, 64, 62), (3, len(prompt), len(prompt)), (4, 64, 0)):
        before, after = (
            scheme_uses(prepared(turns[:n], UNIT), UNIT, ["shift-any"], rules=rules("first:2", 8))
            for n in (last - 1, last)
        )
        assert after[0].found_tokens - before[0].found_tokens == found
        assert after[0].net_tokens - before[0].net_tokens == net


def test_short_runs_are_not_moved():
    turns = [Turn([1, 2, 3, 4, 5, 6]), Turn([9, 3, 4, 5, 6, 8])]
    for min_run, found in ((4, 4), (5, 0)):
        (use,) = scheme_uses(
            prepared(turns, UNIT), UNIT, ["shift-any"], rules=rules("none", min_run)
        )
        assert use.found_tokens == found


def test_chained_ids_say_nothing_about_moved_text():
    turns = [Turn([1, 2, 3]), Turn([1, 2, 4])]
    why = why_not_moved(accesses_of(turns, IDS))
    chain, radix, grid, anywhere = scheme_uses(prepared(turns, IDS), IDS, why_not_moved=why)
    assert chain.token_rate == radix.token_rate == 8 / 24
    for use in (grid, anywhere):
        assert (use.measurable, use.token_rate, use.net_token_rate) == (False, None, None)
        assert "chained hashes" in use.reason


def test_ids_of_content_can_be_found_on_their_grid():
    # Twelve blocks of 512 tokens, two of them in front of the document the second time.
    document = list(range(10, 20))
    unit = Unit(512, 1)
    turns = [Turn([1, 2, *document]), Turn([3, *document, 4], num_tokens=11 * 512 + 7)]
    why = why_not_moved(accesses_of(turns, unit))
    chain, _, grid, anywhere = scheme_uses(prepared(turns, unit), unit, why_not_moved=why)
    assert why is None and chain.found_tokens == 0
    assert grid.found_tokens == 10 * 512
    assert grid.net_tokens == 7 * 512  # a quarter, in whole blocks, is three
    assert not anywhere.measurable and "inside a block" in anywhere.reason


def test_a_full_hit_counts_the_short_last_block_as_it_is():
    turns = [Turn([1, 2], num_tokens=5), Turn([1, 2], num_tokens=5)]
    (use,) = scheme_uses(prepared(turns, IDS), IDS, ["chain"])
    assert (use.found_tokens, use.prompt_tokens) == (5, 10)


def test_refuses_an_unknown_scheme():
    with pytest.raises(ConfigError, match="Unknown scheme 'shift'; allowed: chain, radix"):
        scheme_uses([], UNIT, ["shift"])


def test_tokens_of_any_size_are_told_apart():
    big = np.iinfo(np.int32).max
    turns = [Turn([0, big, 1, 2]), Turn([0, big, 3, 2])]
    (use,) = scheme_uses(prepared(turns, UNIT), UNIT, ["radix"])
    assert use.found_tokens == 2
