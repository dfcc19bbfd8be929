"""Old turns that are dropped in larger steps than the client drops them."""

from advice.chat_traces import Row, again, assistant, chat, chats, rewritten, system, user

from kvtool.advice.compaction import in_larger_steps

HEAD = system("You guide.")


def turn(n: int) -> list[Row]:
    return [user(f"Question {n}?"), assistant(f"Answer {n}.")]


def window(first: int, last: int) -> list[Row]:
    """Turns first to last, the last one without its answer."""
    turns = [message for n in range(first, last + 1) for message in turn(n)]
    return [HEAD, *turns[:-1]]


def spans(*windows: tuple[int, int]) -> list[tuple[int, int]]:
    """First and last turn of each request of a client with these windows."""
    prompts = chats(*(window(*each) for each in windows), session="s")
    found = rewritten(in_larger_steps, prompts)
    numbers = [[int(m["content"].split()[1][:-1]) for m in messages[1:]] for messages in found]
    spans = [(each[0], each[-1]) for each in numbers]
    assert found == [window(*span) for span in spans]
    return spans


def test_what_was_dropped_is_kept_until_it_is_more_than_what_is_sent() -> None:
    assert spans((1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 8)) == [
        (1, 2),
        (1, 3),
        (1, 4),
        (1, 5),
        (4, 6),
        (4, 7),
        (4, 8),
    ]


def test_a_client_that_only_appends_is_left_alone() -> None:
    assert spans((1, 1), (1, 2), (1, 3)) == [(1, 1), (1, 2), (1, 3)]


def test_another_conversation_starts_anew() -> None:
    assert spans((1, 2), (2, 3), (8, 9), (9, 10)) == [(1, 2), (1, 3), (8, 9), (8, 10)]


def test_sessions_are_kept_apart() -> None:
    requests = [
        chat(0, *window(1, 2), session="a"),
        chat(1, *window(2, 3), session="b"),
        chat(2, *window(2, 3)),
        chat(3, *window(3, 4)),
    ]
    assert rewritten(in_larger_steps, lambda: requests) == [
        window(1, 2),
        window(2, 3),
        window(2, 3),
        window(3, 4),
    ]


def test_a_summary_in_place_of_turns_is_no_cut() -> None:
    prompts = [window(1, 3), [HEAD, user("Summary of 1 and 2."), *window(3, 4)[1:]]]
    assert rewritten(in_larger_steps, chats(*prompts, session="s")) == prompts


def test_never_a_result_without_its_call() -> None:
    call = assistant("", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}])
    result = {"role": "tool", "tool_call_id": "c", "content": "42"}
    whole = [HEAD, user("Long ago?"), call, result, assistant("42."), user("Now?")]
    cut_between = [HEAD, *whole[3:], assistant("So."), user("And?")]
    prompts = chats(whole, cut_between, session="s")
    assert rewritten(in_larger_steps, prompts) == [whole, cut_between]


def test_calls_and_results_come_back_together() -> None:
    call = assistant("", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}])
    result = {"role": "tool", "tool_call_id": "c", "content": "42"}
    first = [HEAD, user("How many?"), call, result, assistant("42."), user("Now?")]
    second = [HEAD, user("Now?"), assistant("So it is. " * 20), user("And?")]
    prompts = chats(first, second, session="s")
    assert rewritten(in_larger_steps, prompts)[1] == [*first, *second[2:]]


def test_twice_is_once() -> None:
    prompts = chats(*(window(n, n + 2) for n in range(1, 12)), session="s")
    assert again(in_larger_steps, prompts) == rewritten(in_larger_steps, prompts)
