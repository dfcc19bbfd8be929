"""Each cause of a miss in a scenario of its own, with exact token counts."""

from __future__ import annotations

import pytest
from analysis.caused import Chats, caused, said, words
from replay.prepared_requests import prepared

from kvtool.analysis.causes import CAUSES, CauseSpan
from kvtool.replay.cost import CostModel
from kvtool.traces.prepared import Unit
from kvtool.traces.trace_request import BlockPrompt, Place, TraceRequest

AMPLE = 200
CHAIN = {"prefix_index": "chain"}
SYSTEM = said("system", *words("sys", 20))
IDS = Unit(16, 1)


def ids(index: int, symbols: list[int], num_tokens: int | None = None, **fields):
    return prepared(index, symbols, unit=IDS, num_tokens=num_tokens, **fields)


def test_first_sight() -> None:
    result = caused([prepared(0, range(10)), prepared(1, range(10, 13))], AMPLE)
    assert result.causes == [{"first_sight": 10}, {"first_sight": 3}]


def test_diverged_and_what_shifted_reuse_would_save() -> None:
    """The run stood at position 0: its first block, the sink, is computed again, and the last
    token always is."""
    result = caused([prepared(0, range(16)), prepared(1, [99, *range(16)])], AMPLE)
    assert result.causes[1] == {"first_sight": 1, "diverged": 16}
    assert result.found[1].recoverable_by_shift_tokens == 16 - 1 - 4
    assert result.found[1].spans == (CauseSpan(0, 1, "first_sight"), CauseSpan(1, 17, "diverged"))


def test_less_than_a_block_elsewhere_is_first_sight() -> None:
    result = caused([prepared(0, range(16)), prepared(1, [99, 5, 6, 7, 98])], AMPLE)
    assert result.causes[1] == {"first_sight": 5}


def test_with_shifted_reuse_nothing_moved_is_missed() -> None:
    requests = [prepared(0, range(16)), prepared(1, [99, *range(16)])]
    result = caused(requests, AMPLE, cache={"reuse": "shift"})
    assert result.served[1].moved == ((1, 16),)
    assert result.causes[1] == {"first_sight": 1, "diverged": 1}
    assert result.found[1].recoverable_by_shift_tokens == 0


def test_diverged_ids_where_ids_are_no_chained_hashes() -> None:
    result = caused([ids(0, [1, 2, 3]), ids(1, [9, 2, 3])], AMPLE, unit=IDS)
    assert result.causes[1] == {"first_sight": 16, "diverged": 32}
    assert caused([ids(0, [1, 2]), ids(1, [1, 3])], 9, unit=IDS).causes[1] == {"first_sight": 16}


def test_context_rewritten_is_all_that_the_session_had_behind_the_change() -> None:
    """The clock is the second of 20 words; the question is of 3, and the new one of 5."""
    chats = Chats()
    for now, question in (("10:00:01", words("a", 3)), ("10:00:02", words("b", 5))):
        clock = said("system", "Time:", now, *words("sys", 18))
        chats.ask([clock, said("user", *question)])
    (_, second) = caused(chats.requests, AMPLE).causes
    # From the clock on: 19 words, then end and next header, then the question and what leads over.
    assert second == {"context_rewritten": 19 + 2, "first_sight": 5 + 2}


def test_context_rewritten_in_the_middle() -> None:
    chats, end = Chats(), said("user", *words("end", 6))
    chats.ask([SYSTEM, said("tool", *words("old", 8)), end])
    chats.ask([SYSTEM, said("tool", *words("new", 2)), end, said("user", *words("more", 3))])
    (_, second) = caused(chats.requests, AMPLE).causes
    assert second == {"context_rewritten": (2 + 2) + (6 + 2), "first_sight": 3 + 2}


def test_changed_tools_are_a_rewritten_context() -> None:
    chats = Chats()
    for name in ("read", "write"):
        tool = {"type": "function", "function": {"name": name}}
        chats.ask([SYSTEM, said("user", "go")], tools=[tool])
    (_, second) = caused(chats.requests, AMPLE).causes
    assert set(second) == {"context_rewritten"}


def test_another_question_is_no_rewritten_context() -> None:
    chats = Chats()
    chats.ask([SYSTEM, said("user", *words("a", 5))])
    chats.ask([SYSTEM, said("user", *words("b", 7))])
    assert caused(chats.requests, AMPLE).causes[1] == {"first_sight": 7 + 2}


def test_context_rewritten_of_hash_ids_lies_within_the_length_of_the_request_before() -> None:
    result = caused(
        [ids(0, [1, 2, 3], 40, session="s"), ids(1, [1, 7, 8, 9], session="s")], AMPLE, unit=IDS
    )
    assert result.causes[1] == {"context_rewritten": 40 - 16, "first_sight": 64 - 40}


def test_truncated_window() -> None:
    """Two messages of 6 and 4 words are dropped; what is kept moves."""
    chats = Chats()
    history = [said("user", *words(f"m{i}-", 4 + 2 * i)) for i in range(4)]
    chats.ask([SYSTEM, *history])
    chats.ask([SYSTEM, *history[2:], said("user", *words("more", 3))])
    (_, second) = caused(chats.requests, AMPLE).causes
    assert second == {"truncated_window": 8 + 10 + 4, "first_sight": 3 + 2}


def test_truncated_text() -> None:
    text = list(range(200))
    requests = [
        prepared(0, text, session="s"),
        prepared(1, [*text[:20], *text[60:], 900], session="s"),
    ]
    assert caused(requests, AMPLE).causes[1] == {"truncated_window": 140, "first_sight": 1}


def test_reply_rerendered_without_its_thinking() -> None:
    """The reply's KV is there for 1 + 4 thinking words and 6 spoken ones; the prompt goes on with
    the spoken ones only, which stand 5 words further on."""
    chats, spoken = Chats(), words("answer", 6)
    question = [SYSTEM, said("user", *words("q", 3))]
    thinking = " ".join(words("hmm", 4))
    chats.ask(question, reply={"content": " ".join(spoken), "reasoning_content": thinking})
    chats.ask([*question, said("assistant", *spoken), said("user", *words("more", 3))])
    result = caused(chats.requests, AMPLE, output_kv=True)
    assert result.causes[1] == {"reply_rerendered": 6, "first_sight": 1 + 1 + 3 + 2}
    without = caused(chats.requests, AMPLE)
    assert without.causes[1] == {"first_sight": 6 + 1 + 1 + 3 + 2}


def test_thinking_that_is_stripped_from_an_earlier_turn() -> None:
    chats = Chats()
    question = said("user", *words("q", 3))
    answers = ([*words("hmm", 5), "</think>", *words("yes", 4)], words("yes", 4))
    for answer in answers:
        chats.ask([SYSTEM, question, said("assistant", *answer), said("user", *words("more", 3))])
    (_, second) = caused(chats.requests, AMPLE).causes
    assert second == {"reply_rerendered": 4 + 2 + 3 + 2}


def test_an_appended_conversation_has_no_change() -> None:
    chats = Chats()
    question, answer = [SYSTEM, said("user", *words("q", 3))], words("yes", 6)
    chats.ask(question, reply=" ".join(answer))
    chats.ask([*question, said("assistant", *answer), said("user", *words("more", 3))])
    result = caused(chats.requests, AMPLE, output_kv=True)
    assert set(result.causes[1]) == {"first_sight"}


def test_policy_and_capacity() -> None:
    """At 3 blocks the best choice keeps [1, 2, 3] until it comes back, and cannot have [4, 5, 6]
    too; LRU keeps neither."""
    prompts = [[1, 2, 3], [4, 5, 6], [1, 2, 3], [4, 5, 6]]
    result = caused([ids(i, prompt) for i, prompt in enumerate(prompts)], 3, unit=IDS)
    assert result.causes[2:] == [{"policy": 48}, {"capacity": 48}]
    assert [one.capacity_blocks for one in result.found] == [None, None, 6, 6]


def test_policy_where_lru_keeps_it() -> None:
    """fifo evicts [1] though it was just used."""
    prompts = [[1], [2], [1], [3], [1]]
    requests = [ids(i, prompt) for i, prompt in enumerate(prompts)]
    assert caused(requests, 2, unit=IDS).causes[4] == {}
    assert caused(requests, 2, unit=IDS, cache={"evict": "fifo"}).causes[4] == {"policy": 16}


def test_capacity_without_a_cache() -> None:
    result = caused([prepared(0, range(8)), prepared(1, range(8))], AMPLE, cache={"reuse": "none"})
    assert result.causes[1] == {"capacity": 8}
    assert result.found[1].capacity_blocks is None  # this capacity would do


def test_ttl() -> None:
    prompts = [[1, 2], [3], [1, 2]]
    requests = [ids(i, prompt) for i, prompt in enumerate(prompts)]
    cost = CostModel(prefill_rate=1, decode_rate=1)
    for ttl_s, cause in ((1000.0, "policy"), (10.0, "ttl")):
        result = caused(requests, 2, unit=IDS, cost=cost, ttl_s=ttl_s)
        assert result.causes[2] == {cause: 16}


def test_in_flight() -> None:
    """The last two tokens of the same prompt stand in a block that the first one's reply still
    fills."""
    requests = [prepared(i, range(10), reply=range(20, 29), arrival_s=0.0) for i in range(2)]
    cost = CostModel(prefill_rate=64, decode_rate=32)
    result = caused(requests, AMPLE, mode="arrival", output_kv=True, cost=cost)
    assert result.causes == [{"first_sight": 10}, {"in_flight": 2}]
    serial = caused(requests, AMPLE, output_kv=True)
    assert serial.causes[1] == {}


def test_partial_block() -> None:
    requests = [prepared(0, range(10)), prepared(1, range(10)), prepared(2, range(13))]
    assert caused(requests, AMPLE, cache=CHAIN).causes[1:] == [
        {"partial_block": 2},
        {"partial_block": 2, "first_sight": 3},
    ]
    assert caused(requests, AMPLE).causes[1:] == [{}, {"first_sight": 3}]


@pytest.mark.report("S12")
def test_below_block_floor() -> None:
    requests = [prepared(0, range(3)), prepared(1, range(3)), prepared(2, [0, 1, 9, 10, 11, 12])]
    assert caused(requests, AMPLE, cache=CHAIN).causes == [
        {"below_block_floor": 3},
        {"below_block_floor": 3},
        {"below_block_floor": 2, "first_sight": 4},
    ]


def test_what_has_no_hash_id() -> None:
    """A rest behind the last id, and a prompt without one."""
    requests = [ids(0, [1, 2], 40), ids(1, [1, 2], 45)]
    assert caused(requests, AMPLE, unit=IDS).causes[1] == {"partial_block": 13}
    request = prepared(2, [3], unit=IDS, num_tokens=5)
    short = TraceRequest(id="x", place=Place("f", 1), prompt=BlockPrompt((), 5))
    request = type(request)(
        **{name: getattr(request, name) for name in type(request).__slots__} | {"request": short}
    )
    assert caused([request], AMPLE, unit=IDS).causes == [{"below_block_floor": 5}]


def test_the_end_of_the_request_before_has_another_id_when_the_prompt_goes_on() -> None:
    requests = [ids(0, [1, 2], 24, session="s"), ids(1, [1, 3, 4], 40, session="s")]
    assert caused(requests, AMPLE, unit=IDS).causes[1] == {"partial_block": 8, "first_sight": 16}


def test_other_namespace() -> None:
    requests = [
        prepared(0, range(10), namespace=b"a"),
        prepared(1, [*range(8), 77, 78], namespace=b"b"),
        prepared(2, range(10), namespace=b"a"),
    ]
    assert caused(requests, AMPLE).causes == [
        {"first_sight": 10},
        {"other_namespace": 8, "first_sight": 2},
        {},
    ]


def test_sessions_that_take_turns_are_compared_with_themselves() -> None:
    """Two threads of one session: the last prompt is not always the one to compare with."""
    chats = Chats()
    main, side = [SYSTEM, said("user", *words("q", 6))], [said("system", *words("title", 8))]
    chats.ask(main)
    chats.ask(side)
    chats.ask([*main, said("user", *words("more", 3))])
    assert caused(chats.requests, AMPLE).causes[2] == {"first_sight": 1 + 3 + 2}


def test_every_cause_is_defined() -> None:
    assert list(CAUSES) == [
        "first_sight",
        "diverged",
        "context_rewritten",
        "capacity",
        "policy",
        "ttl",
        "in_flight",
        "partial_block",
        "other_namespace",
        "reply_rerendered",
        "truncated_window",
        "below_block_floor",
    ]
