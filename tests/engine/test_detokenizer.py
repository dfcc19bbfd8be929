"""Streamed text is decode(all ids), whatever the bytes of a token are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE

from kvtool.engine.detokenizer import REPLACEMENT, Detokenizer

pytestmark = pytest.mark.report("S78")

TEXTS = [
    "plain words",
    "🦙",
    "👩‍👩‍👧 and 🦙🦙",
    "e\u0301 é",
    "שלום עולם",
    "日本語のテキスト",
    "a\ufffdb",
    " lead",
]


class Bytes:
    """Tokens are byte strings, as in byte-level BPE; special ones have no text. Counts its work."""

    def __init__(self, vocabulary: Sequence[bytes]) -> None:
        self.vocabulary = vocabulary
        self.num_decoded = 0

    def decode(self, ids: Sequence[int]) -> str:
        self.num_decoded += len(ids)
        return b"".join(self.vocabulary[i] for i in ids).decode("utf-8", errors="replace")


def pieces(decoder, ids: Sequence[int]) -> list[str]:
    detokenizer = Detokenizer(decoder)
    return [*(detokenizer.append(i) for i in ids), detokenizer.flush()]


SINGLE_BYTES = Bytes([bytes([i]) for i in range(256)])


@pytest.mark.parametrize("text", TEXTS)
def test_a_character_comes_whole_or_not_at_all(text: str) -> None:
    out = pieces(SINGLE_BYTES, text.encode())
    assert "".join(out) == text
    if REPLACEMENT not in text:
        assert REPLACEMENT not in "".join(out)
        assert [piece for piece in out if piece] == list(text)


@pytest.mark.parametrize("text", TEXTS)
def test_unfinished_tail_is_flushed_once(text: str) -> None:
    for cut in range(1, len(text.encode())):
        ids = text.encode()[:cut]
        out = pieces(SINGLE_BYTES, ids)
        assert "".join(out) == SINGLE_BYTES.decode(ids)


def test_flush_empties() -> None:
    detokenizer = Detokenizer(SINGLE_BYTES)
    assert detokenizer.append(0xF0) == ""
    assert detokenizer.flush() == REPLACEMENT
    assert detokenizer.flush() == ""


@settings(max_examples=200)
@given(st.data())
def test_every_byte_string_in_every_cut(data) -> None:
    some_bytes = st.sampled_from([*"🦙é日a ".encode(), 0x80, 0xC3, 0xE2, 0xF0, 0xFF])
    vocabulary = data.draw(
        st.lists(st.lists(some_bytes, max_size=4).map(bytes), min_size=1, max_size=8)
    )
    ids = data.draw(st.lists(st.integers(0, len(vocabulary) - 1), max_size=40))
    decoder = Bytes(vocabulary)
    whole = decoder.decode(ids)
    shown = ""
    for piece in pieces(decoder, ids):
        shown += piece
        assert whole.startswith(shown)
    assert shown == whole


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_tokenizer(text: str) -> None:
    tokenizer = tiny.tokenizer()
    ids = tokenizer.encode(text)
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids) == text


def sentencepiece() -> Tokenizer:
    """Llama 2's decoder: a leading space is dropped, bytes are tokens where all else fails."""
    tokens = ["▁", "▁Hello", "▁world", "wor", "ld", "▁,", *(f"<0x{i:02X}>" for i in range(256))]
    backend = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, [], byte_fallback=True))
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return backend


def test_spaces_between_sentencepiece_tokens_stay() -> None:
    decoder = sentencepiece()
    llama = [6 + byte for byte in "🦙".encode()]
    for ids in (
        [1, 2, 5, 2],
        [0, 1, 3, 4],
        [0, 0, 2],
        [2, *llama, *llama, 1],
        [*llama, 2],
        [0],
        [0, 0],
    ):
        assert "".join(pieces(decoder, ids)) == decoder.decode(ids)


@pytest.mark.parametrize(
    "token", [b"word ", "🦙".encode(), b"", b"\x80", b"\xf0", b"\xe2\x82"], ids=repr
)
def test_work_is_linear_in_the_number_of_tokens(token: bytes) -> None:
    """Special tokens without text and endless broken bytes included."""
    decoder = Bytes([b"start ", token, b""])
    for ids in ([0] + [1] * 2000, [1] + [2] * 2000):
        decoder.num_decoded = 0
        out = "".join(pieces(decoder, ids))
        assert decoder.num_decoded < 100 * len(ids)
        assert out == decoder.decode(ids)
