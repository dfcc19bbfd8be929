"""Equal texts choose equal anchors, wherever they stand; records say what they were given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_memory import prompt, run_of

from kvtool.tiers.mooncake.anchors import ANCHOR_TOKENS, WINDOWS, anchor_names
from kvtool.tiers.mooncake.text_record import (
    ANCHOR_BYTES,
    MAX_HOME,
    decode_anchor,
    decode_record,
    encode_anchor,
    encode_record,
    reference_of,
)
from kvtool.tiers.text.listing import FoundText, Head

SPACE = b"n".ljust(32)
COMMON = ANCHOR_TOKENS + WINDOWS - 1


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    vocabulary=st.sampled_from([1, 2, 50, 100_000]),
    before=st.integers(0, 300),
    other_before=st.integers(0, 300),
    behind=st.integers(0, 300),
)
def test_127_common_tokens_have_an_anchor_in_common(
    seed: int, vocabulary: int, before: int, other_before: int, behind: int
) -> None:
    rng = np.random.default_rng(seed)
    common = rng.integers(0, vocabulary, COMMON)
    texts = [
        np.concatenate(
            (rng.integers(0, vocabulary, length), common, rng.integers(0, vocabulary, behind))
        ).astype(np.int32)
        for length in (before, other_before)
    ]
    names = [set(anchor_names(SPACE, text)) for text in texts]
    assert names[0] & names[1]


def test_anchors_are_few_and_each_named_once() -> None:
    text = np.random.default_rng(0).integers(0, 30_000, 20_000).astype(np.int32)
    names = anchor_names(SPACE, text)
    assert 20_000 / 64 < len(names) == len(set(names)) < 20_000 / 24
    assert len(anchor_names(SPACE, np.ones(20_000, dtype=np.int32))) == 1
    assert anchor_names(SPACE, text[: ANCHOR_TOKENS - 1]) == []
    assert len(anchor_names(SPACE, text[:ANCHOR_TOKENS])) == 1


def test_another_namespace_has_other_names() -> None:
    text = np.arange(500, dtype=np.int32)
    assert not set(anchor_names(SPACE, text)) & set(anchor_names(b"m".ljust(32), text))


def _found(context: int = 5) -> FoundText:
    keys = prompt("record", 24)
    run = run_of(keys, 2, 5)
    return FoundText(run, Head(int(keys.tokens[0]), keys.tokens[8 - context : 8]))


def test_a_record_is_what_was_written() -> None:
    found = _found()
    reference = reference_of(found)
    data = encode_record(found, 4)
    assert len(data) == reference.record_bytes
    decoded = decode_record(data, reference, found.run.namespace, 4)
    assert decoded is not None
    assert decoded.run.tokens.tolist() == found.run.tokens.tolist()
    assert decoded.head.context.tolist() == found.head.context.tolist()
    assert decoded.run._replace(tokens=0) == found.run._replace(tokens=0)  # type: ignore[arg-type]
    assert decoded.head.first_token == found.head.first_token
    anchor = encode_anchor(found.run.namespace, reference)
    assert len(anchor) == ANCHOR_BYTES
    assert decode_anchor(anchor, found.run.namespace) == reference


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_every_changed_bit_is_noticed(place: int, bit: int) -> None:
    found = _found()
    reference, space = reference_of(found), found.run.namespace
    anchor, record = encode_anchor(space, reference).copy(), encode_record(found, 4).copy()
    for data in (anchor, record):
        data[place % len(data)] ^= 1 << bit
    assert decode_anchor(anchor, space) is None
    assert decode_record(record, reference, space, 4) is None


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": SPACE},
        {"parent": b"p" * 32},
        {"home": 4},  # less than its context
        {"home": -8},
        {"home": MAX_HOME + 1},
    ],
    ids=str,
)
def test_a_record_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    found = _found()
    forged = found._replace(run=found.run._replace(**change))  # type: ignore[arg-type]
    data = encode_record(forged, 4)
    assert decode_record(data, reference_of(found), found.run.namespace, 4) is None


def test_a_record_of_other_blocks_or_sizes_is_refused() -> None:
    found = _found()
    reference, space = reference_of(found), found.run.namespace
    data = encode_record(found, 4)
    assert decode_record(data, reference._replace(last_key=b"k" * 32), space, 4) is None
    assert decode_record(data, reference._replace(num_tokens=8, num_context=9), space, 4) is None
    assert decode_record(data, reference, space, 2) is None
    assert decode_record(data[:0], reference, space, 4) is None
    huge = encode_anchor(space, reference._replace(num_tokens=2**31 - 1))
    assert decode_anchor(huge, space) is None
