"""Text that another process has put is found by its content, in few calls, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mooncake_cluster
import numpy as np
import pytest
from mooncake_cluster import DEADLINE_S, Cluster, frozen
from numpy_memory import BLOCK_SIZE, NumpyMemory, everywhere

from kvtool.cache.backing import Run
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.reuse.refusals import Limits
from kvtool.reuse.runs import find_runs
from kvtool.tiers.mooncake import MooncakeTier
from kvtool.tiers.mooncake.anchors import anchor_names
from kvtool.tiers.mooncake.connection import connect
from kvtool.tiers.mooncake.directory import CONTEXT_TOKENS, OVERLAP_TOKENS
from kvtool.tiers.text.listing import FoundText
from kvtool.tiers.text.stored_text import StoredText

pytestmark = mooncake_cluster.needed
Connected = Callable[..., MooncakeTier]


def text(length: int, seed: int) -> Tokens:
    return np.random.default_rng(seed).integers(0, 50_000, length).astype(np.int32)


def space(name: str) -> bytes:
    return name.ljust(32, ".").encode()


def put(tier: MooncakeTier, name: str, tokens: Tokens, ends: list[int], **fields: Any) -> None:
    """The sequence in several runs, as a request writes it: ends in blocks."""
    keys = BlockKeys(space(name), tokens, BLOCK_SIZE)
    for start, stop in zip([0, *ends], [*ends, len(keys)]):
        part = tokens[start * BLOCK_SIZE : stop * BLOCK_SIZE]
        before = tokens[: start * BLOCK_SIZE]
        span = tuple(keys.span(start, stop))
        run = Run(
            keys.namespace, keys.parent(start), span, part, len(before), before=before
        )._replace(**fields)
        memory = NumpyMemory(num_blocks=stop - start)
        assert tier.put(run, memory.source(everywhere(memory, range(stop - start)))).reason is None


def runs_in(found: list[FoundText], name: str, prompt: Tokens) -> list[tuple[int, int, int]]:
    source = StoredText(space(name), BLOCK_SIZE)
    for run, head in found:
        assert source.add(run, 0, head) is not None
    source.check_integrity()
    runs = find_runs(prompt, 0, source, space(name), limits=Limits()).runs
    return sorted({(run.start, run.stop, run.delta) for run in runs})


def test_moved_text_is_found_across_the_runs_it_was_put_in(
    cluster: Cluster, connected: Connected
) -> None:
    donor = text(1300, 1)
    put(connected(cluster), "moved", donor, [70, 140, 141, 250])
    prompt = np.concatenate((text(33, 2), donor[90:1250], text(20, 3)))
    found = connected(cluster).find_text(space("moved"), [prompt])
    assert runs_in(found, "moved", prompt) == [(33, 1193, -57)]
    assert [f.head.first_token for f in found] == [donor[0]] * len(found)
    for run, head in found:
        wanted = donor[max(0, run.home - CONTEXT_TOKENS) : run.home]
        assert head.context.tolist() == wanted.tolist()


@pytest.mark.parametrize("border", [70, 100, 131])
def test_text_at_the_border_of_two_runs_is_found(
    cluster: Cluster, connected: Connected, border: int
) -> None:
    donor = text(1000, border)
    put(connected(cluster), f"border {border}", donor, [border])
    middle = donor[border * 4 - 67 : border * 4 + 70]
    prompt = np.concatenate((text(50, 2), middle, text(50, 3)))
    found = connected(cluster).find_text(space(f"border {border}"), [prompt])
    assert runs_in(found, f"border {border}", prompt) == [(50, 187, 50 - (border * 4 - 67))]
    assert OVERLAP_TOKENS >= 127


def test_another_namespace_finds_nothing(cluster: Cluster, connected: Connected) -> None:
    put(connected(cluster), "mine", text(600, 1), [])
    assert connected(cluster).find_text(space("theirs"), [text(600, 1)]) == []
    assert len(connected(cluster).find_text(space("mine"), [text(600, 1)])) == 1


def test_approximate_runs_and_runs_without_their_beginning_have_no_record(
    cluster: Cluster, connected: Connected
) -> None:
    put(connected(cluster), "approximate", text(600, 1), [], exact=False)
    assert connected(cluster).find_text(space("approximate"), [text(600, 1)]) == []
    put(connected(cluster), "spilled", text(600, 1), [], before=None)
    assert connected(cluster).find_text(space("spilled"), [text(600, 1)]) == []


def test_the_copy_stored_last_is_found(cluster: Cluster, connected: Connected) -> None:
    chunk = text(500, 5)
    tier = connected(cluster)
    put(tier, "last", np.concatenate((text(100, 1), chunk)), [])
    put(tier, "last", np.concatenate((text(40, 2), chunk)), [])
    prompt = np.concatenate((text(7, 3), chunk))
    assert runs_in(tier.find_text(space("last"), [prompt]), "last", prompt) == [(7, 507, -33)]


def test_two_calls_for_a_prompt_one_where_nothing_is_known(
    cluster: Cluster, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = connected(cluster)
    put(tier, "calls", text(1000, 1), [])
    client = connect(cluster.address, DEADLINE_S)
    calls: list[str] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return getattr(client, name)

    monkeypatch.setattr("kvtool.tiers.mooncake.client.connect", lambda *_: Counted())
    pieces = [text(1000, 1)[100:400], text(1000, 1)[500:900], text(300, 9)]
    assert len(tier.find_text(space("calls"), pieces)) == 1
    assert calls == ["batch_get_into_multi_buffers"] * 2
    calls.clear()
    assert tier.find_text(space("calls"), [text(1000, 2)]) == []
    assert calls == ["batch_get_into_multi_buffers"]
    calls.clear()
    assert tier.find_text(space("calls"), [text(63, 2)]) == [] and not calls


def test_damaged_anchors_and_records_are_passed_over(
    cluster: Cluster, connected: Connected
) -> None:
    tokens, tier = text(600, 1), connected(cluster)
    put(tier, "damaged", tokens, [])
    (found,) = tier.find_text(space("damaged"), [tokens])
    raw = connect(cluster.address, DEADLINE_S)
    record = f"kvtool/1/run/{found.run.keys[-1].hex()}"
    for name in (record, *anchor_names(space("damaged"), tokens)):
        junk = np.zeros(raw.get_size(name), dtype=np.uint8)
        assert raw.batch_upsert_from([name], [junk.ctypes.data], [len(junk)]) == [0]
        assert tier.find_text(space("damaged"), [tokens]) == []
    put(tier, "damaged", np.concatenate((tokens, text(40, 2))), [])
    assert len(tier.find_text(space("damaged"), [tokens])) == 1, "its end was stored anew"


def test_a_store_that_does_not_answer_costs_the_deadline(
    cluster: Cluster, connected: Connected
) -> None:
    tier = connected(cluster)
    with frozen(cluster.master):
        start = time.monotonic()
        assert tier.find_text(space("frozen"), [text(1000, 1)]) == []
        assert tier.find_text(space("frozen"), [text(1000, 1)]) == []
        assert time.monotonic() - start < 2 * DEADLINE_S
