"""Text of a prompt found in the tiers: what is said of it is so, and its KV can be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy_memory import NumpyMemory
from reuse.oracle import agreements
from tiers.disk.disk_runs import (
    BLOCK_SIZE,
    GROUPS,
    NAMESPACE,
    kv_of,
    load,
    namespace,
    run_files,
    run_of,
    tier_of,
    views_of,
)
from tiers.fakes import DictTier

from kvtool.cache.backing import StoredDonor
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.donors import similar
from kvtool.reuse.planner import Rules
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair
from kvtool.tiers.disk.disk import DiskTier
from kvtool.tiers.host import HostTier
from kvtool.tiers.rates import Rates
from kvtool.tiers.stack import Tiers
from kvtool.tiers.text.listing import FoundText, Head
from kvtool.tiers.tier import Tier

OTHER = namespace(salt="other")
BLOCK_BYTES = sum(group.block_bytes(BLOCK_SIZE) for group in GROUPS)


def rules_of(min_run: int = 8, repair: str = "none", bos_id: int | None = None) -> Rules:
    return Rules(Limits(min_run, bos_id), parse_repair(repair), similar)


def tiers_of(*tiers: Tier, rates: Rates | None = None) -> Tiers:
    return Tiers(tiers, NumpyMemory(GROUPS, BLOCK_SIZE), rates or Rates())


def text(length: int, seed: int) -> Tokens:
    return np.random.default_rng(seed).integers(0, 1000, length).astype(np.int32)


def put(tier: Tier, tokens: Tokens, *part: int, space: bytes = NAMESPACE) -> None:
    run = run_of(tokens, *part, space=space)
    tier.put(run, views_of(run))


def find(
    tiers: Tiers, prompt: Tokens, pieces: Sequence[tuple[int, int]] = (), rules: Rules | None = None
) -> list[StoredDonor]:
    donors = tiers.donors(prompt, pieces or [(0, len(prompt))], NAMESPACE, rules or rules_of())
    tiers.check_integrity()
    end = 0
    for donor in donors:
        assert end <= donor.start < donor.stop
        end = donor.stop
        held = donor.tokens[donor.offset :][: donor.stop - donor.start]
        assert held.tolist() == prompt[donor.start : donor.stop].tolist()
        assert len(donor.blocks) == -(-len(donor.tokens) // BLOCK_SIZE)
    return donors


def places(donors: Sequence[StoredDonor]) -> list[tuple[int, int, int]]:
    return [(donor.start, donor.stop, donor.delta) for donor in donors]


def check_kv(tier: DiskTier, donor: StoredDonor, chain: Tokens) -> None:
    """What is loaded is the KV of the chain it was computed in."""
    first = donor.home // BLOCK_SIZE
    keys = run_of(chain).keys[first : first + len(donor.blocks)]
    assert tuple(block.key for block in donor.blocks) == keys
    num_full = len(donor.tokens) // BLOCK_SIZE
    for got, want in zip(load(tier, donor.blocks), kv_of(keys), strict=True):
        assert np.array_equal(got[:num_full], want[:num_full])


def test_moved_text_on_disk(tmp_path: Path) -> None:
    disk, donor_text = tier_of(tmp_path), text(70, 1)
    put(disk, donor_text, 0, 9)
    put(disk, donor_text, 9)
    prompt = np.concatenate((text(10, 2), donor_text[5:70], text(3, 3)))
    (donor,) = find(tiers_of(disk), prompt)
    assert places([donor]) == [(10, 75, 5)]
    assert (donor.offset, donor.home, donor.first_token) == (1, 4, donor_text[0])
    assert donor.context.tolist() == donor_text[:4].tolist()
    assert donor.tokens.tolist() == donor_text[4:].tolist(), "the partly filled block included"
    assert {block.tier for block in donor.blocks} == {"disk"}
    check_kv(disk, donor, donor_text)


def test_only_the_pieces_asked_for_are_looked_up(tmp_path: Path) -> None:
    disk, donor_text = tier_of(tmp_path), text(70, 1)
    put(disk, donor_text)
    prompt = np.concatenate((text(10, 2), donor_text))
    tiers = tiers_of(disk)
    assert places(find(tiers, prompt, [(20, 40), (60, 70)])) == [(20, 40, 10), (60, 70, 10)]
    assert places(find(tiers, prompt, [(20, 40), (60, 67)])) == [(20, 40, 10)]


def test_of_each_block_the_copy_in_the_fastest_tier(tmp_path: Path) -> None:
    host, disk = HostTier(5 * BLOCK_BYTES, GROUPS, BLOCK_SIZE), tier_of(tmp_path)
    donor_text = text(40, 1)
    put(host, donor_text, 0, 5)
    put(disk, donor_text)
    prompt = np.concatenate((text(3, 2), donor_text))
    (donor,) = find(tiers_of(host, disk), prompt)
    assert places([donor]) == [(3, 43, 3)]
    assert [block.tier for block in donor.blocks] == ["host"] * 5 + ["disk"] * 5


def test_another_namespace_and_approximate_kv_are_not_seen(tmp_path: Path) -> None:
    disk, donor_text = tier_of(tmp_path), text(40, 1)
    put(disk, donor_text, space=OTHER)
    run = run_of(donor_text)._replace(exact=False)
    disk.put(run, views_of(run))
    assert find(tiers_of(disk), np.concatenate((text(3, 2), donor_text))) == []


@pytest.mark.parametrize(("bos_id", "found"), [(None, True), (7, True), (8, False)])
def test_a_donor_without_bos_is_refused(tmp_path: Path, bos_id: int | None, found: bool) -> None:
    disk = tier_of(tmp_path)
    donor_text = np.concatenate(([7], text(60, 1))).astype(np.int32)
    put(disk, donor_text, 0, 8)
    put(disk, donor_text, 8)
    prompt = np.concatenate((text(3, 2), donor_text[34:]))
    assert bool(find(tiers_of(disk), prompt, rules=rules_of(bos_id=bos_id))) is found


def test_the_copy_in_the_most_similar_context(tmp_path: Path) -> None:
    disk, chunk = tier_of(tmp_path), text(40, 1)
    contexts = [text(40, seed) for seed in (2, 3, 4)]
    for context in contexts:
        put(disk, np.concatenate((context, chunk)))
    prompt = np.concatenate((contexts[1][::-1], text(1, 9), chunk, text(1, 8)))
    (donor,) = find(tiers_of(disk), prompt, [(30, len(prompt))])
    assert donor.context[:40].tolist() == contexts[1].tolist()


def test_a_damaged_file_is_found_and_not_read(tmp_path: Path) -> None:
    disk, donor_text = tier_of(tmp_path), text(40, 1)
    put(disk, donor_text)
    tiers, prompt = tiers_of(disk), np.concatenate((text(3, 2), donor_text))
    assert len(find(tiers, prompt)) == 1
    (path,) = run_files(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert find(tiers, prompt) == [] and not run_files(tmp_path)


def test_what_went_away_meanwhile_is_cut_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, donor_text = tier_of(tmp_path), text(80, 1)
    for start in range(0, 20, 5):
        put(disk, donor_text, start, start + 5)
    tiers, prompt = tiers_of(disk), np.concatenate((text(3, 2), donor_text))
    find(tiers, prompt)
    run_files_of = {run_of(donor_text, s, s + 5).keys[0]: s for s in range(0, 20, 5)}
    gone = next(key for key, start in run_files_of.items() if start == 5)
    contains = disk.contains
    monkeypatch.setattr(
        disk,
        "contains",
        lambda keys, rows: (
            []
            if keys[0] == gone
            else contains(keys, rows)
            if gone not in keys
            else contains(keys[: keys.index(gone)], rows[: keys.index(gone)])
        ),
    )
    assert places(find(tiers, prompt)) == [(27, 83, 3)]


def test_what_is_slower_to_load_than_to_compute_is_left_alone(tmp_path: Path) -> None:
    disk, donor_text = tier_of(tmp_path), text(40, 1)
    put(disk, donor_text)
    prompt = np.concatenate((text(3, 2), donor_text))
    rates = Rates()
    rates.loaded("disk", 10 * BLOCK_BYTES, 1.0)
    rates.computed(34, 1.0)
    tiers = tiers_of(disk, rates=rates)
    assert len(find(tiers, prompt)) == 1, "36 tokens take more than a second"
    assert find(tiers, prompt, rules=rules_of(repair="first:8")) == [], "32 do not"
    assert tiers.report()[0]["skipped_blocks"] == 10


class FakeDirectory(DictTier):
    """Finds what it is told to."""

    def __init__(self, found: list[FoundText]) -> None:
        super().__init__("remote", GROUPS, BLOCK_SIZE)
        self.found = found
        self.asked: list[list[Tokens]] = []

    def find_text(self, namespace: bytes, pieces: Sequence[Tokens]) -> list[FoundText]:
        self.asked.append(list(pieces))
        return self.found


def test_a_directory_is_asked_for_what_is_nowhere_else(tmp_path: Path) -> None:
    local, far = text(40, 1), text(60, 2)
    disk = tier_of(tmp_path)
    put(disk, local)
    run = run_of(far, 5, 15)
    remote = FakeDirectory([FoundText(run, Head(int(far[0]), far[4:20]))])
    remote.put(run, views_of(run))
    prompt = np.concatenate((text(9, 3), far[22:58], local[3:40], text(2, 4)))
    donors = find(tiers_of(disk, remote), prompt)
    assert places(donors) == [(9, 45, -13), (45, 82, 42)]
    assert [donor.blocks[0].tier for donor in donors] == ["remote", "disk"]
    assert [piece.tolist() for piece in remote.asked[0]] == [prompt[:45].tolist()]
    assert donors[0].first_token == far[0] and donors[0].context.tolist() == far[4:20].tolist()
    remote.kept.clear()
    assert places(find(tiers_of(disk, remote), prompt)) == [(45, 82, 42)], "its KV is gone"
    remote.asked.clear()
    find(tiers_of(disk, remote), np.concatenate((text(3, 2), local)))
    assert remote.asked == [], "nothing is left that is long enough"


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_chains_against_a_naive_search(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Every token that some stored chain has in a run of 12 or more is served, and from there."""
    rng = np.random.default_rng(seed)
    host = HostTier(6 * BLOCK_BYTES, GROUPS, BLOCK_SIZE)
    disk = tier_of(tmp_path_factory.mktemp("cache"))
    pieces = [text(30, 100 + i) for i in range(4)]
    chains = []
    for _ in range(int(rng.integers(1, 4))):
        parts = [pieces[int(rng.integers(4))] for _ in range(2)]
        chain = np.concatenate((text(int(rng.integers(1, 9)), int(rng.integers(1000))), *parts))
        border = int(rng.integers(1, len(chain) // BLOCK_SIZE))
        put(disk, chain, 0, border)
        put(disk, chain, border)
        if rng.random() < 0.5:
            put(host, chain)
        chains.append(chain)
    order = rng.permutation(4)
    prompt = np.concatenate([pieces[i][int(rng.integers(0, 9)) :] for i in order])
    donors = find(tiers_of(host, disk), prompt, rules=rules_of(min_run=12))
    served = np.zeros(len(prompt), dtype=bool)
    for donor in donors:
        served[donor.start : donor.stop] = True
        assert any(
            chain[donor.home : donor.home + len(donor.tokens)].tolist() == donor.tokens.tolist()
            and chain[max(0, donor.home - 256) : donor.home].tolist() == donor.context.tolist()
            and chain[0] == donor.first_token
            for chain in chains
        )
    for chain in chains:
        for delta in range(1 - len(chain), len(prompt)):
            for start, stop in agreements(prompt, 0, chain, delta):
                if stop - start >= 15:  # it holds a whole block, and an overlap may cut it
                    assert served[start + 3 : stop - 3].all()
