"""When what failed is tried again, and how late calls are given up."""

from __future__ import annotations

import threading

import pytest

from kvtool.tiers.mooncake.breaker import Breaker
from kvtool.tiers.mooncake.deadline import Late, within
from kvtool.tiers.mooncake.forgotten import Forgotten


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_closed_until_a_failure_then_one_trial_after_the_pause() -> None:
    clock = Clock()
    breaker = Breaker(5, 60, clock)
    assert breaker.admit() and breaker.admit()
    assert breaker.fail()
    clock.now += 4.9
    assert not breaker.admit()
    clock.now += 0.1
    assert breaker.admit()
    assert not breaker.admit(), "one trial at a time"
    assert breaker.succeed()
    assert breaker.admit() and breaker.admit()


def test_pauses_double_up_to_the_longest_and_start_anew_after_a_success() -> None:
    clock = Clock()
    breaker = Breaker(5, 17, clock)
    news, pauses = [breaker.fail()], [breaker.pause_s]
    for _ in range(3):
        clock.now += breaker.pause_s
        assert breaker.admit()
        news.append(breaker.fail())
        pauses.append(breaker.pause_s)
    assert pauses == [5, 10, 17, 17]
    assert news == [True, False, False, False]
    clock.now += 17
    assert breaker.admit()
    breaker.succeed()
    assert breaker.fail()
    assert breaker.pause_s == 5


def test_calls_that_fail_together_count_as_one_failure() -> None:
    breaker = Breaker(5, 60, Clock())
    assert breaker.admit() and breaker.admit()
    assert breaker.fail()
    assert not breaker.fail()
    assert breaker.pause_s == 5


def test_keys_are_forgotten_for_a_while_or_until_they_are_stored_anew() -> None:
    clock = Clock()
    forgotten = Forgotten(30, clock)
    forgotten.add([b"a", b"b"])
    clock.now += 20
    forgotten.add([b"c"])
    forgotten.discard([b"b", b"never"])
    assert [key in forgotten for key in (b"a", b"b", b"c", b"d")] == [True, False, True, False]
    clock.now += 10
    assert [key in forgotten for key in (b"a", b"c")] == [False, True]


def test_a_result_and_an_error_pass_through() -> None:
    assert within(10, lambda: 7) == 7
    with pytest.raises(TimeoutError, match="of the call itself"):
        within(10, lambda: _raise(TimeoutError("of the call itself")))


def test_a_late_call_is_given_up_and_says_when_it_ended() -> None:
    release = threading.Event()
    with pytest.raises(Late) as late:
        within(0.01, lambda: release.wait(30))
    assert not late.value.unfinished.done()
    ended = threading.Event()
    late.value.unfinished.add_done_callback(lambda _: ended.set())
    release.set()
    assert ended.wait(30)


def _raise(error: Exception) -> None:
    raise error
