"""Two sequences side by side."""

from __future__ import annotations

from inspection.small_cache import NAMESPACE, decode, encode, other, put

from kvtool.inspection.diff import diff_entries, diff_prompts
from kvtool.inspection.namespaces import FieldDifference
from kvtool.tiers.disk.catalog import Catalog


def test_two_runs_with_what_stands_in_front(catalog: Catalog) -> None:
    head = put(catalog, encode("abcdefgh"))
    one = put(catalog, encode("abcdefghij"), first_block=2)
    two = put(catalog, encode("abcdefghix"), first_block=2)
    diff = diff_entries(catalog, one.key, two.key[:20], decode)
    assert (diff.common_tokens, diff.differences) == (9, ())
    assert (diff.a.name, diff.b.name) == (one.key, two.key)
    assert (diff.a.start, diff.a.tokens, diff.a.stored_tokens, diff.a.runs) == (0, 10, 10, 2)
    assert diff.a.bytes == head.num_bytes + one.num_bytes
    difference = diff.first_difference
    assert difference is not None
    assert (difference.position, difference.block, difference.before) == (9, 2, "abcdefghi")
    assert (difference.prompt.text, difference.stored.text) == ("j", "x")


def test_no_text_without_a_tokenizer(catalog: Catalog) -> None:
    one, two = put(catalog, encode("abcd")), put(catalog, encode("abxx"))
    difference = diff_entries(catalog, one.key, two.key, None).first_difference
    assert difference is not None
    assert (difference.prompt.token_id, difference.stored.token_id) == (3, 24)
    assert (difference.prompt.text, difference.before) == (None, None)


def test_one_that_begins_with_the_other(catalog: Catalog) -> None:
    one = put(catalog, encode("abcdef"))
    two = put(catalog, encode("abcd"), other(kv_dtype="bfloat16", salt="s"))
    diff = diff_entries(catalog, one.key, two.key, decode)
    assert (diff.common_tokens, diff.first_difference) == (4, None)
    assert diff.differences == (
        FieldDifference("kv_dtype", "float32", "bfloat16"),
        FieldDifference("salt", "unset", "set"),
    )


def test_without_heads_only_known_positions_are_compared(catalog: Catalog) -> None:
    tail = put(catalog, encode("abcdefgh"), first_block=1)
    whole = put(catalog, encode("zzzzefgx"))
    diff = diff_entries(catalog, tail.key, whole.key, decode)
    assert (diff.a.start, diff.a.tokens, diff.a.stored_tokens) == (4, 4, 0)
    assert diff.common_tokens == 3
    assert diff.first_difference is not None and diff.first_difference.position == 7


def test_prompts(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"))
    prompts = ("a.txt", encode("abcdefxx")), ("b.txt", encode("abcdzz"))
    diff = diff_prompts(catalog, NAMESPACE, *prompts, decode)
    assert (diff.a.name, diff.a.tokens, diff.a.stored_tokens) == ("a.txt", 8, 6)
    assert (diff.b.name, diff.b.tokens, diff.b.stored_tokens) == ("b.txt", 6, 4)
    assert diff.common_tokens == 4
