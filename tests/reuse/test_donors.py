"""Which copy of a text donates."""

from __future__ import annotations

import pytest
from reuse.texts import Store, text

from kvtool.cache.block_pool import Tokens
from kvtool.names import lookup
from kvtool.reuse.donor_chains import Chain, DonorChains
from kvtool.reuse.donors import DONORS, choose_donors
from kvtool.reuse.refusals import Limits
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs

CHUNK = range(5000, 5160)


def donor(store: Store, tokens: Tokens, name: str, min_run: int = 128) -> list[Run]:
    """What replaces the first found run."""
    found = find_runs(tokens, 0, store.content, b"", limits=Limits(min_run)).runs
    ranking = lookup(DONORS, name, "donor")
    return choose_donors(found[:1], found, tokens, [store.content], ranking, min_run)


def cached(*contexts: range) -> Store:
    store = Store(1024, 16)
    for context in contexts:
        store.add(text(context, CHUNK))
    return store


@pytest.mark.parametrize(("name", "delta"), [("similar", 70), ("recent", 20)])
def test_similar_context_against_most_recent_use(name: str, delta: int) -> None:
    store = cached(range(30), range(200, 280))
    (run,) = donor(store, text(range(10), range(60, 150), CHUNK), name)
    assert run.delta == delta


@pytest.mark.parametrize("last_used", [0, 1, 2])
def test_equally_similar_goes_to_the_last_used(last_used: int) -> None:
    store = Store(1024, 16)
    blocks = [store.add(text(range(i, i + 30), CHUNK)) for i in (100, 200, 300)]
    store.tree.end_use(blocks[last_used], 99)
    (run,) = donor(store, text(range(60), CHUNK), "similar")
    assert run.blocks[-1] == blocks[last_used][-1]


def test_only_the_nearest_256_tokens_count() -> None:
    near, far, other = range(300, 556), range(256), range(2000, 2256)
    store = cached(range(3000, 3010))
    expected = store.add(text(1, near, CHUNK))
    store.add(text(2, far, other, CHUNK))
    runs = find_runs(text(far, 3, near, CHUNK), 0, store.content, b"", limits=Limits()).runs
    assert len(runs) == 4, "far text, and the chunk behind three contexts"
    tokens = text(far[::-1], near[::-1], CHUNK)
    (run,) = donor(store, tokens, "similar")
    assert run.blocks[-1] == expected[-1]


def test_a_bare_header_loses_against_text() -> None:
    store = cached(range(100, 200), range(5))
    (run,) = donor(store, text(range(5), range(100, 160), CHUNK), "similar")
    assert store.content.first_token(run.blocks[0]) == 100


def test_a_copy_a_few_tokens_shorter_may_replace_the_longest() -> None:
    """The longest agrees by chance with two tokens more in front."""
    store = cached(range(100, 130))
    store.add(text(range(700, 730), 98, 99, CHUNK))
    tokens = text(range(100, 130), 98, 99, CHUNK, 7)
    (run,) = donor(store, tokens, "similar")
    assert (run.start, run.stop, run.delta) == (32, 192, 2)
    (run,) = donor(store, tokens, "similar", min_run=161)
    assert (run.start, run.stop, run.delta) == (30, 192, 0)


def test_a_copy_much_shorter_may_not() -> None:
    store = Store(1024, 16)
    store.add(text(range(100, 130), CHUNK[17:]))
    store.add(text(range(700, 730), CHUNK))
    (run,) = donor(store, text(range(100, 130), CHUNK, 7), "similar")
    assert run.num_tokens == 160


@pytest.mark.parametrize(("name", "delta"), [("similar", 0), ("recent", 30), ("consensus", 10)])
def test_the_mean_of_most_copies_goes_before_similar_context(name: str, delta: int) -> None:
    """An exact copy behind the target's own context, another one used last, and two means."""
    store = cached(range(30))
    store.add(text(CHUNK))
    chains = DonorChains([store.pool])
    for home, num_merged in ((20, 3), (25, 2)):
        blocks = store.pool.allocate(10)
        fields = {"namespace": b"", "first_token": 7, "context": text(range(600, 660))}
        mean = Chain(
            blocks=(blocks,), tokens=text(CHUNK), home=home, num_merged=num_merged, **fields
        )
        chains.add(mean, now=1)
    tokens, sources = text(range(30), CHUNK, 7), (store.content, chains)
    found = [
        run for each in sources for run in find_runs(tokens, 0, each, b"", limits=Limits()).runs
    ]
    assert len(found) == 4
    whole = [run.cut(30, 190, 16) for run in found]
    ranking = lookup(DONORS, name, "donor")
    (run,) = choose_donors(whole[:1], whole, tokens, sources, ranking, 128)
    assert run.delta == delta
