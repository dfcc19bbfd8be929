"""Every token of a prompt, and every reason why one is computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspection.small_cache import NAMESPACE, decode, encode, other, put

from kvtool.cache.namespace import Namespace
from kvtool.inspection.namespaces import FieldDifference
from kvtool.inspection.prompt_span import REASONS, Span
from kvtool.inspection.served import Rules
from kvtool.inspection.why import Explanation, explain
from kvtool.tiers.disk.catalog import Catalog


def why(catalog: Catalog, text: str, namespace: Namespace = NAMESPACE, **rules: Any) -> Explanation:
    return explain(catalog, namespace, encode(text), Rules(**rules), decode)


def shown(explanation: Explanation) -> list[tuple[int, int, str | None]]:
    """Spans as start, end and reason, of a hit the tier."""
    return [(s.start, s.end, s.reason or s.tier) for s in explanation.spans]


def last(explanation: Explanation) -> Span:
    return explanation.spans[-1]


def test_nothing_stored(catalog: Catalog) -> None:
    explanation = why(catalog, "abcdef")
    assert shown(explanation) == [(0, 6, "nothing_stored")]
    assert (explanation.prompt_tokens, explanation.hit_tokens) == (6, 0)
    assert last(explanation).differences is None


def test_the_closest_namespace_is_named_where_nothing_is_stored(catalog: Catalog) -> None:
    put(catalog, encode("zzzz"), other(weights="11", kv_dtype="float16"))
    put(catalog, encode("zzzz"), other(rope_regime="linear 4"))
    explanation = why(catalog, "abcdef")
    assert shown(explanation) == [(0, 6, "nothing_stored")]
    assert last(explanation).differences == (FieldDifference("rope_regime", "default", "linear 4"),)


def test_all_of_it_is_stored(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"))
    explanation = why(catalog, "abcdefgh")
    assert shown(explanation) == [(0, 7, "disk"), (7, 8, "last_token")]
    assert explanation.spans[0].delta == 0


def test_a_prompt_that_ends_inside_a_stored_block_hits(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"))
    assert shown(why(catalog, "abcdef")) == [(0, 5, "disk"), (5, 6, "last_token")]


@pytest.mark.parametrize(
    ("stored", "prompt", "hit", "before", "asked", "found"),
    [
        ("abcdefgh", "abcdexyz", 5, "abcde", ("x", "yz"), ("f", "gh")),
        ("abcdefgh", "abcdxyzz", 4, "abcd", ("x", "yzz"), ("e", "fgh")),
        ("abcdefghij", "abcdefghxy", 8, "abcdefgh", ("x", "y"), ("i", "j")),
        ("abcd", "xbcd", 0, "", ("x", "bcd"), ("a", "bcd")),
    ],
)
def test_diverges(
    catalog: Catalog,
    stored: str,
    prompt: str,
    hit: int,
    before: str,
    asked: tuple[str, str],
    found: tuple[str, str],
) -> None:
    entry = put(catalog, encode(stored))
    explanation = why(catalog, prompt)
    assert shown(explanation)[-1] == (hit, len(prompt), "diverges")
    assert explanation.hit_tokens == hit
    difference = last(explanation).first_difference
    assert difference is not None
    assert (difference.position, difference.block) == (hit, hit // 4)
    assert difference.before == before
    for side, (text, behind) in ((difference.prompt, asked), (difference.stored, found)):
        assert (side.token_id, side.text, side.behind) == (encode(text)[0], text, behind)
    assert entry.key[:12] in (last(explanation).detail or "")


def test_the_sequence_with_most_in_common_is_the_one_compared_with(catalog: Catalog) -> None:
    put(catalog, encode("abcdeffff"))
    put(catalog, encode("abcdexxyz"))
    put(catalog, encode("abcdzzzzz"))
    difference = last(why(catalog, "abcdexxq")).first_difference
    assert difference is not None
    assert (difference.position, difference.stored.text) == (7, "y")


def test_the_stored_sequence_ends_with_a_block(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"))
    explanation = why(catalog, "abcdefghij")
    assert shown(explanation) == [(0, 8, "disk"), (8, 10, "stored_end")]
    assert last(explanation).detail == "the stored sequence ends at token 8, the end of block 1"


def test_the_stored_sequence_ends_inside_a_block(catalog: Catalog) -> None:
    put(catalog, encode("abcdef"))
    explanation = why(catalog, "abcdefghij")
    assert shown(explanation) == [(0, 6, "disk"), (6, 10, "partial_block")]
    assert last(explanation).detail == (
        "the stored sequence ends at token 6 inside block 1; the prompt goes on in that block"
    )
    assert last(explanation).first_difference is None


def test_whole_blocks_only(catalog: Catalog) -> None:
    put(catalog, encode("abcdef"))
    explanation = why(catalog, "abcdefgh", whole_blocks=True)
    assert shown(explanation) == [
        *((0, 4, "disk"), (4, 6, "whole_blocks"), (6, 8, "partial_block"))
    ]


def test_whole_blocks_and_a_prompt_that_is_stored_in_whole(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"))
    explanation = why(catalog, "abcdefgh", whole_blocks=True)
    assert shown(explanation) == [(0, 7, "disk"), (7, 8, "last_token")]


@pytest.mark.parametrize(
    ("prompt", "spans"),
    [
        ("abcdefghijkl", [(0, 8, "disk"), (8, 12, "whole_chunks")]),
        ("abcdefghijxx", [(0, 8, "disk"), (8, 10, "whole_chunks"), (10, 12, "diverges")]),
        ("abcdefgh", [(0, 8, "whole_chunks")]),
    ],
)
def test_whole_chunks_only(
    catalog: Catalog, prompt: str, spans: list[tuple[int, int, str]]
) -> None:
    put(catalog, encode("abcdefghijkl"))
    assert shown(why(catalog, prompt, chunk=8)) == spans


def test_the_head_is_gone(catalog: Catalog) -> None:
    put(catalog, encode("abcdefghijkl"), first_block=1)
    explanation = why(catalog, "abcdefghijkl")
    assert shown(explanation) == [(0, 4, "evicted"), (4, 12, "head_missing")]
    assert explanation.spans[0].detail == (
        "not stored (evicted or deleted), though tokens 4 to 11 behind it are"
    )
    assert last(explanation).detail == "stored, but tokens 0 to 3 in front of it are not"


def test_a_gap_in_the_middle(catalog: Catalog) -> None:
    put(catalog, encode("abcd"))
    put(catalog, encode("abcdefghijkl"), first_block=2)
    explanation = why(catalog, "abcdefghijklmn")
    assert shown(explanation) == [
        *((0, 4, "disk"), (4, 8, "evicted"), (8, 12, "head_missing"), (12, 14, "stored_end"))
    ]


@pytest.mark.report("S49")
@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({"weights": "ff"}, ("weights", NAMESPACE.weights, "ff")),
        ({"architecture": "Q"}, ("architecture", NAMESPACE.architecture, "Q")),
        ({"rope_regime": "yarn 4"}, ("rope_regime", "default", "yarn 4")),
        ({"compute_dtype": "bfloat16"}, ("compute_dtype", "float32", "bfloat16")),
        ({"kv_dtype": "float8"}, ("kv_dtype", "float32", "float8")),
        ({"kv_layout": "layer-major"}, ("kv_layout", "block-major", "layer-major")),
        ({"block_size": 2}, ("block_size", 4, 2)),
        ({"tokenizer": "00"}, ("tokenizer", NAMESPACE.tokenizer, "00")),
        ({"adapter": "ad"}, ("adapter", None, "ad")),
        ({"implementation": "torch 2"}, ("implementation", None, "torch 2")),
        ({"salt": "s"}, ("salt", "unset", "set")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_stored_under_another_namespace(
    catalog: Catalog, fields: dict[str, object], difference: tuple[str, object, object]
) -> None:
    put(catalog, encode("abcdefgh"), other(**fields))
    explanation = why(catalog, "abcdefxy")
    assert shown(explanation) == [(0, 6, "other_namespace"), (6, 8, "nothing_stored")]
    assert explanation.spans[0].differences == (FieldDifference(*difference),)


@pytest.mark.report("S65")
@pytest.mark.parametrize(
    ("asked", "stored", "words"),
    [("mine", None, ("set", "unset")), ("mine", "yours", ("set", "other"))],
)
def test_salts_are_never_shown(
    catalog: Catalog, asked: str, stored: str | None, words: tuple[str, str]
) -> None:
    put(catalog, encode("abcdefgh"), other(salt=stored))
    explanation = why(catalog, "abcdefgh", other(salt=asked))
    assert explanation.hit_tokens == 0
    assert explanation.spans[0].differences == (FieldDifference("salt", *words),)
    assert explanation.namespace["salt"] == "set"
    assert "mine" not in repr(explanation) and "yours" not in repr(explanation)
    same = why(catalog, "abcdefgh", other(salt=stored))
    assert same.hit_tokens == 7  # so that a cache that never hits does not pass


def test_another_namespace_explains_only_what_goes_beyond_ones_own(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"), other(kv_dtype="float16"))
    put(catalog, encode("abxxxxxx"))
    explanation = why(catalog, "abcdefghij")
    assert shown(explanation) == [*((0, 2, "disk"), (2, 8, "other_namespace"), (8, 10, "diverges"))]
    difference = explanation.spans[1].first_difference
    assert difference is not None and difference.stored.text == "x"


@given(stored=st.lists(st.text("ab", min_size=1, max_size=14), max_size=4), data=st.data())
def test_hits_are_the_longest_stored_prefix(
    tmp_path_factory: pytest.TempPathFactory, stored: list[str], data: st.DataObject
) -> None:
    prompt = data.draw(st.text("ab", min_size=1, max_size=14))
    catalog = Catalog.open(tmp_path_factory.mktemp("cache") / "kv", create=True)
    for text in stored:
        put(catalog, encode(text))
    explanation = why(catalog, prompt)
    catalog.close()
    shared = [_common(prompt, text) for text in stored]
    assert explanation.hit_tokens == min(max(shared, default=0), len(prompt) - 1)
    for span in explanation.spans:
        assert span.start < span.end
        assert (span.reason in REASONS) == (span.kind == "compute")


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def test_a_long_prompt_is_not_looked_up_block_by_block(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(catalog, encode("abcdefgh"))
    asked = []
    block = Catalog.block
    monkeypatch.setattr(Catalog, "block", lambda c, key: asked.append(key) or block(c, key))
    explanation = why(catalog, "abcd" + "x" * 40_000)
    assert shown(explanation)[0] == (0, 4, "disk") and explanation.prompt_tokens == 40_004
    assert len(asked) < 10
