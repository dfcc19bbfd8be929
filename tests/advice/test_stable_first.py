"""Paragraphs that many sessions have in front of those that few have."""

import pytest
from advice.chat_traces import again, assistant, chat, chats, messages_of, rewritten, system, user

from kvtool.advice.paragraphs import pieces
from kvtool.advice.stable_first import shared_first


def systems(*texts: str) -> list[str]:
    prompts = chats(*([system(text), user("?")] for text in texts))
    return [messages[0]["content"] for messages in rewritten(shared_first, prompts)]


def test_shared_text_comes_first() -> None:
    assert systems("Upload A.\n\nHandbook.\n\nRules.", "Upload B.\n\nHandbook.\n\nRules.") == [
        "Handbook.\n\nRules.\n\nUpload A.",
        "Handbook.\n\nRules.\n\nUpload B.",
    ]


def test_all_then_several_then_one() -> None:
    assert systems("Mine.\n\nOurs.\n\nAll.", "Yours.\n\nOurs.\n\nAll.", "Other.\n\nAll.") == [
        "All.\n\nOurs.\n\nMine.",
        "All.\n\nOurs.\n\nYours.",
        "All.\n\nOther.",
    ]


def test_a_session_counts_once_and_its_requests_behind_that() -> None:
    requests = [
        chat(0, system("Now 1.\n\nSession A.\n\nBoth."), session="a"),
        chat(1, system("Now 2.\n\nSession A.\n\nBoth."), session="a"),
        chat(2, system("Now 3.\n\nSession B.\n\nBoth."), session="b"),
    ]
    found = [messages_of(r)[0]["content"] for r in shared_first(lambda: requests)]
    assert found[0] == "Both.\n\nSession A.\n\nNow 1."


def test_equals_stay_in_their_order() -> None:
    text = "One.\n\nTwo.\n\nThree."
    assert systems(text, text) == [text, text]


ONE_PIECE = {
    "a colon at its end": "Upload {n}. All of it:\n\nAll.",
    "a list behind it": "Upload {n}.\n\n- all\n- all",
    "numbers behind it": "Upload {n}.\n\n1. all\n\n2. all",
    "a word that goes on": "Upload {n}.\n\nHowever, all.",
    "looking back": "Upload {n}.\n\nAll of the above is secret.",
    "looking back once more": "Upload {n}.\n\nObey what is above and all else.",
    "looking on": "Upload {n}. Mind the following.\n\nAll.",
    "small letters": "Upload {n}\n\nand all.",
    "text before headings": "Upload {n}.\n\n# Rules\n\nAll.",
    "a smaller heading": "# Upload {n}\n\n## All\n\nAll.",
    "code": "Upload {n}.\n```\na\n\nb\n```",
    "an element": "<upload>\n{n}\n\nAll.\n</upload>",
    "an element without an end": "<upload>\n{n}\n\nAll.",
    "the end introduces the user": "Upload {n}.\n\nAll.\n\nThe question:",
    "the end looks on": "Upload {n}.\n\nAll of what follows the following line.",
    "the beginning looks back": "The above is {n}.\n\nAll.",
    "fences that do not pair": "Upload {n}.\n\nAll: ```\n\nb\n\n```\n\n```",
    "the beginning goes on": "and {n}.\n\nAll.",
}


@pytest.mark.parametrize("text", ONE_PIECE.values(), ids=ONE_PIECE)
def test_refused(text: str) -> None:
    texts = [text.replace("{n}", n) for n in ("1", "2")]
    assert systems(*texts) == texts
    assert len(pieces(texts[0])) == 1


PIECES = [
    ("# A\n\na\n\n## B\n\nb", "# C\n\nc"),
    ("A.", "```\nb\n\nc\n```", "D."),
    ("<a>\nb\n\nc\n</a>", "D."),
    ("<a>b</a>", "C."),
    ("A:\n\nb.", "C."),
    ("A, see below.\n\nB.", "C."),
    ("A.", "B, one metre below the surface.", "C, above all."),
    ("A.\n\n- b\n- c", "D."),
]


@pytest.mark.parametrize("expected", PIECES)
def test_what_stays_together(expected: tuple[str, ...]) -> None:
    assert pieces("\n\n".join(expected)) == expected
    assert pieces("\n\n\n".join(expected)) == expected


def test_only_a_system_message_that_comes_first() -> None:
    prompts = [
        [user(f"Upload {n}.\n\nAll."), system(f"Upload {n}.\n\nAll."), assistant("Yes.")]
        for n in (1, 2)
    ]
    assert rewritten(shared_first, chats(*prompts)) == prompts


def test_twice_is_once() -> None:
    prompts = chats(*([system(f"Upload {n}.\n\nAll.\n\nOdd {n % 2}.")] for n in range(4)))
    assert again(shared_first, prompts) == rewritten(shared_first, prompts)
