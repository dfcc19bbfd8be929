"""The fallback tokenizer: lossless, deterministic, stable under growth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtool.traces.encoding_memo import EncodingMemo
from kvtool.traces.fallback_tokenizer import FallbackTokenizer

TEXT = st.text(st.one_of(st.characters(), st.sampled_from("aZ0 _\n\t.")), max_size=60)
LONG = st.builds(lambda text, n: text * n, TEXT, st.integers(0, 400))


@given(LONG)
def test_the_pieces_are_the_text(text: str) -> None:
    tokenizer = FallbackTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(LONG, max_size=4))
def test_equal_texts_and_no_others_have_equal_ids(texts: list[str]) -> None:
    tokenizer = FallbackTokenizer()
    ids = [tuple(tokenizer.encode(text)) for text in texts]
    for one, first in zip(texts, ids):
        for other, second in zip(texts, ids):
            assert (one == other) == (first == second)


@given(LONG, LONG)
def test_text_that_grows_by_lines_keeps_its_ids(text: str, more: str) -> None:
    """Memory of chunks must not show: one that never saw the beginning gives the same ids."""
    warm, cold = FallbackTokenizer(), FallbackTokenizer()
    begun = warm.encode(text)
    grown = warm.encode(f"{text}\n\n!{more}")
    assert grown.tolist() == cold.encode(f"{text}\n\n!{more}").tolist()
    if text and not text.endswith("\n"):
        assert grown[: len(begun)].tolist() == begun.tolist()


def test_pieces_are_about_as_long_as_a_models() -> None:
    tokenizer = FallbackTokenizer()

    def pieces(text: str) -> list[str]:
        return [tokenizer.decode([i]) for i in tokenizer.encode(text)]

    assert pieces("The files, 2024!") == ["The", " files", ",", " ", "20", "24", "!"]
    assert pieces("internationalisation") == ["internati", "onalisati", "on"]
    assert pieces("HTTPServer  x\n\n\ty") == ["HTT", "PS", "erver", "  ", "x", "\n\n", "\t", "y"]
    assert pieces("日本語") == ["日本", "語"]


def test_lone_surrogates_are_pieces_too() -> None:
    tokenizer = FallbackTokenizer()
    assert tokenizer.decode(tokenizer.encode("a\ud83db")) == "a\ud83db"


def test_the_memo_forgets_what_was_used_longest_ago() -> None:
    asked: list[str] = []
    memo = EncodingMemo(lambda text: asked.append(text) or text, max_characters=4)  # type: ignore[func-returns-value]
    for text in ("aa", "bb", "aa", "cc", "aa", "bb"):
        assert memo(text) == text
        assert memo.num_characters <= 4
    assert asked == ["aa", "bb", "cc", "bb"]
