"""Two token sequences side by side: how far they agree, and what keeps their KV apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.namespace import Namespace
from kvtool.inspection.first_difference import (
    Decode,
    FirstDifference,
    common_length,
    first_difference,
)
from kvtool.inspection.namespaces import FieldDifference, differences
from kvtool.inspection.sequence import StoredSequence, stored_sequence
from kvtool.inspection.stored_prefix import stored_prefix
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """One sequence, from its start to the end of the run or file `name`.

    start: position of its first known token, more than 0 where its head is not stored.
    stored_tokens: what a prompt that begins with it finds. bytes: of the runs it lies in.
    """

    name: str
    start: int
    tokens: int
    stored_tokens: int
    runs: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """common_tokens: from the first position that both know. first_difference: None where one
    sequence begins with the other, or they share no position. differences: of the namespaces."""

    a: DiffSide
    b: DiffSide
    common_tokens: int
    first_difference: FirstDifference | None
    differences: tuple[FieldDifference, ...]


def diff_entries(catalog: Catalog, key_a: str, key_b: str, decode: Decode | None) -> Diff:
    """Two runs by the beginning of their keys, each with all that stands in front of it."""
    a, b = catalog.find(key_a), catalog.find(key_b)
    one, other = stored_sequence(catalog, a), stored_sequence(catalog, b)
    common, difference = _compare(one, other, a.block_size, decode)
    return Diff(
        a=_entry_side(one),
        b=_entry_side(other),
        common_tokens=common,
        first_difference=difference,
        differences=() if a.namespace == b.namespace else differences(a.fields, b.fields),
    )


def diff_prompts(
    catalog: Catalog,
    namespace: Namespace,
    a: tuple[str, Tokens],
    b: tuple[str, Tokens],
    decode: Decode,
) -> Diff:
    """Two prompts, each with its name, and what of each is stored."""
    one, other = StoredSequence(0, a[1], ()), StoredSequence(0, b[1], ())
    common, difference = _compare(one, other, namespace.block_size, decode)
    return Diff(
        a=_prompt_side(catalog, namespace, *a),
        b=_prompt_side(catalog, namespace, *b),
        common_tokens=common,
        first_difference=difference,
        differences=(),
    )


def _compare(
    a: StoredSequence, b: StoredSequence, block_size: int, decode: Decode | None
) -> tuple[int, FirstDifference | None]:
    first = max(a.start, b.start)
    ours, theirs = a.tokens[first - a.start :], b.tokens[first - b.start :]
    common = common_length(ours, theirs)
    if common == min(len(ours), len(theirs)):
        return common, None
    return common, first_difference(
        ours,
        theirs,
        first + common,
        starts=(first, first),
        block_size=block_size,
        decode=decode,
    )


def _entry_side(sequence: StoredSequence) -> DiffSide:
    num_tokens = len(sequence.tokens)
    return DiffSide(
        name=sequence.runs[-1].key,
        start=sequence.start,
        tokens=num_tokens,
        stored_tokens=0 if sequence.start else num_tokens,
        runs=len(sequence.runs),
        bytes=_bytes(sequence.runs),
    )


def _prompt_side(catalog: Catalog, namespace: Namespace, name: str, tokens: Tokens) -> DiffSide:
    found = stored_prefix(catalog, BlockKeys(namespace.digest, tokens, namespace.block_size))
    return DiffSide(
        name=name,
        start=0,
        tokens=len(tokens),
        stored_tokens=found.num_tokens,
        runs=len(found.entries),
        bytes=_bytes(found.entries),
    )


def _bytes(runs: Iterable[Entry]) -> int:
    return sum(run.num_bytes for run in runs)
