"""On any trace and replay: causes are a partition of the misses, and hold what they say."""

from __future__ import annotations

from typing import Any

from analysis import oracle
from analysis.caused import Caused, Chats, caused, said
from analysis.small_traces import IDS, Turn, prepared
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.prepared_requests import blocks_needed
from replay.prepared_requests import traces as texts

from kvtool.replay.cost import CostModel
from kvtool.traces.prepared import PreparedRequest

EVICTED = {"capacity", "policy", "ttl"}
WORD = st.sampled_from(["a", "b", "c", "d"])
COST = CostModel(prefill_rate=64, decode_rate=32)


@st.composite
def chats(draw: st.DrawFn) -> list[PreparedRequest]:
    """Sessions that append, edit, drop, strip thinking or begin anew."""
    result, histories = Chats(), {"one": [], "two": []}
    for _ in range(draw(st.integers(1, 7))):
        session = draw(st.sampled_from(list(histories)))
        history = list(histories[session])
        step = draw(st.sampled_from(["append", "append", "edit", "drop", "restart"]))
        if step == "edit" and history:
            history[draw(st.integers(0, len(history) - 1))] = said("user", *_text(draw))
        elif step == "drop":
            del history[1 : draw(st.integers(1, 4))]
        elif step == "restart":
            history = []
        history = history or [said("system", *_text(draw))]
        history.append(said("user", *_text(draw)))
        reply = _text(draw)
        result.ask(
            history,
            session=session,
            reply=" ".join(reply),
            model=draw(st.sampled_from(["m", "m", "n"])),
            tools=[{"name": draw(WORD)}] if draw(st.booleans()) else (),
        )
        shown = draw(st.sampled_from([reply, reply, reply[1:]]))
        histories[session] = [*history, said("assistant", *shown)]
    return result.requests


def _text(draw: st.DrawFn) -> list[str]:
    return draw(st.lists(WORD, min_size=1, max_size=9))


REPLAYS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["serial", "serial", "arrival"]),
        "output_kv": st.booleans(),
        "cache": st.fixed_dictionaries(
            {
                "evict": st.sampled_from(["lru", "lfu", "fifo", "slru"]),
                "prefix_index": st.sampled_from(["radix", "chain"]),
                "reuse": st.sampled_from(["none", "prefix", "prefix", "shift"]),
            }
        ),
    }
)


@given(st.one_of(chats(), texts()), st.integers(0, 12), REPLAYS)
@settings(max_examples=60, deadline=None)
def test_every_missed_token_of_a_text_has_one_cause(
    requests: list[PreparedRequest], spare: int, replayed: dict[str, Any]
) -> None:
    replayed = {**replayed, "cost": COST}
    result = caused(requests, blocks_needed(requests) + spare, **replayed)
    check(result, replayed)


@given(texts(IDS), st.integers(0, 6), REPLAYS)
@settings(max_examples=50, deadline=None)
def test_every_missed_token_of_hash_ids_has_one_cause(
    requests: list[PreparedRequest], spare: int, replayed: dict[str, Any]
) -> None:
    replayed["cache"]["reuse"] = replayed["cache"]["reuse"].replace("shift", "prefix")
    result = caused(requests, blocks_needed(requests, IDS) + spare, unit=IDS, **replayed)
    check(result, replayed)


def check(result: Caused, replayed: dict[str, Any]) -> None:
    evicted = any(one.evicted_blocks for one in result.served)
    for served, found in zip(result.served, result.found):
        covered = [(0, served.hit_tokens), *served.moved, *(span[:2] for span in found.spans)]
        edges = [edge for span in sorted(s for s in covered if s[0] < s[1]) for edge in span]
        assert [0, *edges] == [*sorted([0, *edges[:-1]]), served.prompt_tokens]
        assert edges[1:-1:2] == edges[2::2], "spans and hits tile the prompt"
        causes = found.causes
        assert sum(causes.values()) == served.missed_tokens
        assert all(count > 0 for count in causes.values())
        assert 0 <= found.recoverable_by_shift_tokens <= served.missed_tokens
        if replayed["mode"] == "serial":
            assert "in_flight" not in causes
        if not evicted and replayed["mode"] == "serial" and replayed["cache"]["reuse"] == "prefix":
            assert not EVICTED & causes.keys()
        if not EVICTED & causes.keys():
            assert found.capacity_blocks is None


@given(
    st.one_of(chats(), texts()),
    st.integers(0, 10),
    st.sampled_from(["radix", "chain"]),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_the_named_capacity_of_a_text_hits(
    requests: list[PreparedRequest], spare: int, prefix_index: str, output_kv: bool
) -> None:
    """Serial and LRU, in text: at most a few blocks more than it takes."""
    options = {"cache": {"prefix_index": prefix_index}, "output_kv": output_kv}
    result = caused(requests, blocks_needed(requests) + spare, **options)
    for found, served in zip(result.found, result.served):
        if found.capacity_blocks is not None:
            lost = sum(found.causes[cause] for cause in EVICTED)
            again = caused(requests, found.capacity_blocks, **options)
            assert again.served[found.position].hit_tokens >= served.hit_tokens + lost


@st.composite
def id_traces(draw: st.DrawFn) -> list[Turn]:
    """Ids as chained hashes: a block is named by all in front of it."""
    names: dict[tuple[int, ...], int] = {}
    turns = []
    for _ in range(draw(st.integers(1, 10))):
        content = draw(st.lists(st.integers(0, 1), min_size=1, max_size=4))
        chain = [tuple(content[: i + 1]) for i in range(len(content))]
        turns.append(Turn([names.setdefault(block, len(names)) for block in chain]))
    return turns


@given(id_traces(), st.integers(0, 4))
@settings(max_examples=80, deadline=None)
def test_first_sight_and_eviction_of_ids_against_an_oracle(turns: list[Turn], spare: int) -> None:
    requests = prepared(turns, IDS)
    capacity = max(len(turn.symbols) for turn in turns) + spare
    result = caused(requests, capacity, unit=IDS)
    plain = [oracle.blocks_of(turn.symbols, 1, b"") for turn in turns]
    seen, kept = oracle.unlimited(plain), oracle.lru(plain, capacity)
    best = oracle.belady(plain, capacity)
    size = IDS.tokens_per_symbol
    for found, new, here, chosen in zip(result.found, seen, kept, best):
        lost = [was and not is_here for was, is_here in zip(new, here)]
        usable = oracle.longest_runs([chosen])[0]
        policy = sum(gone and i < usable for i, gone in enumerate(lost))
        assert found.causes["first_sight"] == size * new.count(False)
        assert found.causes["policy"] == size * policy
        assert found.causes["capacity"] == size * (sum(lost) - policy)
        if not any(lost):
            assert found.capacity_blocks is None
            continue
        enough, short = found.capacity_blocks, found.capacity_blocks - 1
        assert oracle.lru(plain, enough)[found.position] == new
        assert oracle.lru(plain, short)[found.position] != new
