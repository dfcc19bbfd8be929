"""Stop strings: cut at the first to be complete, nothing of one is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.engine.stop import StopMatcher

pytestmark = pytest.mark.report("S77")


def streamed(stops: list[str], chunks: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    text = "".join(matcher.push(chunk) for chunk in chunks)
    if matcher.matched is None:
        text += matcher.flush()
    return text, matcher.matched


@pytest.mark.parametrize(
    ("stops", "chunks", "text"),
    [
        (["beta gamma"], ["alpha ", "beta", " gam", "ma delta"], "alpha "),
        (["DEFGHIJ"], ["ABC", "DE", "FG", "HIJK"], "ABC"),
        (["DEFGHIJ"], ["ABC", "DE", "FG", "HIX"], "ABCDEFGHIX"),
        (["end", "end."], ["the end", ". more"], "the "),
        (["abcd", "bc"], ["xabcd"], "xa"),
        (["bc", "abc"], ["xabc"], "x"),
        (["x"], ["middle of a toxken"], "middle of a to"),
        (["aab"], ["a", "a", "a", "b"], "a"),
        ([], ["any", "thing"], "anything"),
    ],
)
def test_examples(stops: list[str], chunks: list[str], text: str) -> None:
    assert streamed(stops, chunks)[0] == text


def test_holds_back_exactly_what_may_become_a_stop_string() -> None:
    matcher = StopMatcher(["beta gamma", "am!"])
    assert matcher.push("alpha bet") == "alpha "
    assert matcher.push("a gam") == ""
    assert matcher.push("b") == "beta gam"
    assert matcher.push("x") == "bx"
    assert matcher.push("a") == "" and matcher.flush() == "a"


def test_nothing_comes_after_a_match() -> None:
    matcher = StopMatcher(["stop"])
    assert matcher.push("go stop on") == "go "
    assert matcher.matched == "stop"
    assert matcher.push("more") == "" and matcher.flush() == ""


@settings(max_examples=300)
@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=8),
)
def test_streamed_equals_whole_and_nothing_is_lost(stops: list[str], chunks: list[str]) -> None:
    whole = "".join(chunks)
    ends = [(whole.index(s) + len(s), whole.index(s), s) for s in stops if s in whole]
    expected = whole[: min(ends)[1]] if ends else whole
    assert streamed(stops, chunks)[0] == streamed(stops, [whole])[0] == expected
    assert streamed(stops, list(whole))[0] == expected
