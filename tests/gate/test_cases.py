"""The probe set: every prompt holds text that was computed at another position."""

from __future__ import annotations

import pytest

from kvtool.gate.cases import SITUATIONS, Case, Ids, make_cases

BOS = 1
NO_BOS_OR_BOS = pytest.mark.parametrize("bos_id", [None, BOS])


def by_bytes(text: str) -> list[int]:
    """The most tokens that a tokenizer makes."""
    return [3 + byte for byte in text.encode()]


def by_words(text: str) -> list[int]:
    """About the fewest."""
    return [2 + sum(word.encode()) for word in text.split()]


def longest_common(a: Ids, b: Ids) -> tuple[int, int, int]:
    """(length, start in a, start in b) of the longest common run at different positions."""
    best = (0, 0, 0)
    lengths = [0] * (len(b) + 1)
    for i, token in enumerate(a):
        for j in range(len(b) - 1, -1, -1):
            lengths[j + 1] = lengths[j] + 1 if b[j] == token else 0
            here = (lengths[j + 1], i + 1 - lengths[j + 1], j + 1 - lengths[j + 1])
            if here[1] != here[2]:
                best = max(best, here)
    return best


@NO_BOS_OR_BOS
def test_all_situations_begin_as_the_model_expects(bos_id: int | None) -> None:
    cases = make_cases(by_bytes, bos_id)
    assert {case.situation for case in cases} == set(SITUATIONS)
    assert 6 <= len(cases) <= 8
    for case in cases:
        for ids in (case.prompt, *case.donors):
            assert (ids[0] == BOS) == (bos_id is not None)
            assert BOS not in ids[1:]


def cases_by_words() -> list[Case]:
    return make_cases(by_words, None)


@pytest.mark.parametrize("case", cases_by_words(), ids=lambda case: case.situation)
def test_a_text_of_min_run_tokens_is_moved(case: Case) -> None:
    found = [longest_common(donor, case.prompt) for donor in case.donors]
    for length, there, here in found:
        assert length >= 128
        assert there != here
    assert len({there - here for _, there, here in found}) == len(found)  # each copy its own delta


def test_lengths_hardly_depend_on_the_tokenizer() -> None:
    for encode in (by_words, by_bytes):
        for case in make_cases(encode, BOS):
            assert 190 <= len(case.prompt) <= 700
            assert 20 <= len(case.answer) <= 40
            assert len(case.prompt) + len(case.answer) <= case.num_tokens <= 750


def test_the_question_is_whole_at_its_end() -> None:
    for case in make_cases(by_bytes, None):
        assert bytes(token - 3 for token in case.prompt).endswith(b"?\nAnswer:")
