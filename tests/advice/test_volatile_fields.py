"""Clocks, dates and ids of system messages, behind what stays."""

from functools import partial

import pytest
from advice.chat_traces import again, assistant, chats, rewritten, system, user

from kvtool.advice.statements import statements
from kvtool.advice.volatile_fields import moved, to_last_user, to_system_end
from kvtool.advice.volatile_values import masked

to_end = partial(moved, destination=to_system_end)
to_user = partial(moved, destination=to_last_user)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("08:15:02", "clock"),
        ("8:15 pm", "clock"),
        ("2024-05-01", "date"),
        ("2024-05-01T08:15:02.123Z", "date"),
        ("2024-05-01 08:15", "date"),
        ("May 1st, 2024", "date"),
        ("Wednesday, 1 May 2024", "date"),
        ("01.05.2024", "date"),
        ("6f1b4c1e-6f0a-4d9f-8d2f-0d9a5a1c2b3d", "uuid"),
        ("req_8fK2pQz91x", "id"),
        ("9f86d081884c7d65", "hex"),
        ("1714551302", "epoch"),
        ("Turn: 17", "counter"),
        ("message #3", "counter"),
    ],
)
def test_values_are_recognised(text: str, kind: str) -> None:
    assert masked(f"It is {text}.")[1] == {kind}


@pytest.mark.parametrize(
    "text",
    ["You have 3 apples", "version 2.1", "face", "deadline", "a ratio of 12", "step by step"],
)
def test_other_texts_are_none(text: str) -> None:
    assert masked(text)[1] == frozenset()


def sentence(clock: str) -> list[dict[str, str]]:
    return [system(f"Time: {clock}. You are a guide. Be short."), user("Where?")]


def test_a_sentence_goes_to_the_end_of_the_system_message() -> None:
    found = rewritten(to_end, chats(sentence("08:15"), sentence("08:16")))
    assert found == [
        [system("You are a guide. Be short.\n\nTime: 08:15."), user("Where?")],
        [system("You are a guide. Be short.\n\nTime: 08:16."), user("Where?")],
    ]


def test_or_to_the_end_of_the_last_user_message() -> None:
    talk = [user("Where?"), assistant("There."), user("When?")]
    prompts = [[system(f"You guide.\nToday is 2024-05-0{n}.\nBe short."), *talk] for n in (1, 2)]
    assert rewritten(to_user, chats(*prompts))[1] == [
        system("You guide.\nBe short."),
        *talk[:2],
        user("When?\n\nToday is 2024-05-02."),
    ]


def test_an_element_moves_whole() -> None:
    prompts = [
        [system(f"<env>\ncwd: /a\ndate: 2024-05-0{n}\n</env>\n\nYou guide."), user("Where?")]
        for n in (1, 2)
    ]
    assert rewritten(to_end, chats(*prompts))[0][0] == system(
        "You guide.\n\n<env>\ncwd: /a\ndate: 2024-05-01\n</env>"
    )


def test_several_fields_keep_their_order() -> None:
    prompts = [
        [system(f"Time: 08:1{n}\nYou guide.\nRequest id: req_abcdef12{n}\nBe short."), user("?")]
        for n in (1, 2)
    ]
    assert rewritten(to_end, chats(*prompts))[0][0] == system(
        "You guide.\nBe short.\n\nTime: 08:11\nRequest id: req_abcdef121"
    )


def test_a_value_that_stays_the_same_stays() -> None:
    prompts = [sentence("08:15"), sentence("08:15")]
    assert rewritten(to_end, chats(*prompts)) == prompts


def test_a_field_at_the_end_already_stays() -> None:
    prompts = [[system(f"You guide.\n\nTime: 08:1{n}."), user("?")] for n in (1, 2)]
    assert rewritten(to_end, chats(*prompts)) == prompts


REFUSED = {
    "part of a longer sentence": "The shop that you work for opens at 0{n}:30 and closes late. Hi.",
    "the next sentence leans on it": "Time: 08:1{n}. It is given in UTC. You guide.",
    "it leans on its neighbours": "You guide. The time above is 08:1{n}. Be short.",
    "something introduces it": "The clock says:\n08:1{n} is the time\nYou guide.",
    "a list with numbers": "1. Today is 2024-05-0{n}.\n2. You guide.",
    "a part of an item": "- Today is 2024-05-0{n}. You guide.\n- Be short.",
    "code": "Run this.\n```\ndate: 2024-05-0{n}\n```\nYou guide.",
    "inside of an element": "<rules>\n"
    + "a rule\n" * 25
    + "Date: 2024-05-0{n}\n</rules>\nYou guide.",
    "a value without a label": "2024-05-0{n}\nYou guide.",
    "nothing else in the message": "Time: 08:1{n}.",
    "the end is inside of code": "Time: 08:1{n}.\n\nYou guide.\n```\ncode",
    "the end introduces the user": "Time: 08:1{n}.\n\nThe question of the user:",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    prompts = [[system(text.replace("{n}", str(n))), user("?")] for n in (1, 2)]
    assert rewritten(to_end, chats(*prompts)) == prompts


def test_user_text_is_left_alone() -> None:
    prompts = [[system("You guide."), user(f"Time: 08:1{n}. Where am I?")] for n in (1, 2)]
    assert rewritten(to_end, chats(*prompts)) == prompts
    assert rewritten(to_user, chats(*prompts)) == prompts


def test_no_user_message_to_move_to() -> None:
    prompts = [[system(f"Time: 08:1{n}. You guide."), assistant("Hello.")] for n in (1, 2)]
    assert rewritten(to_user, chats(*prompts)) == prompts


def test_twice_is_once() -> None:
    prompts = chats(sentence("08:15"), sentence("08:16"))
    assert again(to_end, prompts) == rewritten(to_end, prompts)
    assert again(to_user, prompts) == rewritten(to_user, prompts)


def test_where_a_statement_is() -> None:
    (found,) = statements("You guide. Time: 08:15. Be short.")
    assert found[:4] == (11, 24, "Time: 08:15.", "Time: \0clock\0.")
