"""How a text comes to stand elsewhere: five situations, each built from one committed prompt.

Every case has four earlier contexts of the text: the situation's own donor, one that is similar
to the target's context (same instructions, a document of the same source) and two that are not
(other instructions, documents of the other source). Their order in time is drawn by seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.quality.case import Case, Context, Earlier, Piece, check, context
from benchmarks.quality.frame import Frame, Tokens
from benchmarks.quality.prompts import Prompt

SYSTEM = "You answer questions about the text that you are given."
OTHER_SYSTEM = "You are an editor. You check every quotation of a manuscript against its source."
DOCUMENT_TOKENS = 200  # of a document in front
ANSWER_TOKENS = 40
PARTS = 3


class Material(NamedTuple):
    """kin, strangers: documents of the same and of the other source, three and two of them."""

    bos: Tokens
    seam: Tokens
    head: Tokens
    other_head: Tokens
    text: Tokens
    kin: tuple[Tokens, ...]
    strangers: tuple[Tokens, ...]


class Built(NamedTuple):
    target: Context
    without: Context
    own: Context
    similar: Context
    unlike: tuple[Context, Context]


def moved(m: Material) -> Built:
    """Cached right behind the instructions, now behind a document."""
    text = Piece(m.text, "text")
    return Built(
        target=context(m.bos, m.head, m.kin[0], m.seam, text),
        without=context(m.bos, m.head, m.kin[0]),
        own=context(m.bos, m.head, text),
        similar=context(m.bos, m.head, m.kin[1], m.seam, text),
        unlike=_behind_strangers(m, text),
    )


def reordered(m: Material) -> Built:
    """Three parts of the text, cached in the order 1 2 3, now 3 2 1: none keeps its neighbours."""
    size = -(-len(m.text) // PARTS)
    one, two, three = (
        Piece(m.text[i * size : (i + 1) * size], f"part {i + 1}") for i in range(PARTS)
    )
    front = (m.bos, m.head, m.kin[1], m.seam)
    unlike = [(m.bos, m.other_head, stranger, m.seam) for stranger in m.strangers]
    return Built(
        target=context(m.bos, m.head, three, m.seam, two, m.seam, one),
        without=context(m.bos, m.head),
        own=context(m.bos, m.head, one, m.seam, two, m.seam, three),
        similar=context(*front, two, m.seam, three, m.seam, one),
        unlike=(
            context(*unlike[0], three, m.seam, one, m.seam, two),
            context(*unlike[1], one, m.seam, two, m.seam, three),
        ),
    )


def truncated(m: Material) -> Built:
    """The oldest document was dropped: everything behind it stands further left."""
    text = Piece(m.text, "text")
    return Built(
        target=context(m.bos, m.head, text),
        without=context(m.bos, m.head),
        own=context(m.bos, m.head, m.kin[0], m.seam, text),
        similar=context(m.bos, m.head, m.kin[1], m.seam, text),
        unlike=_behind_strangers(m, text),
    )


def user_prefix(m: Material) -> Built:
    """A user's upload comes in front of instructions and text that were cached from the start."""
    both = Piece((*m.head, *m.text), "instructions and text")
    return Built(
        target=context(m.bos, m.kin[0], m.seam, both),
        without=context(m.bos, m.kin[0], m.seam, m.head),
        own=context(m.bos, both),
        similar=context(m.bos, m.kin[1], m.seam, both),
        unlike=(
            context(m.bos, m.strangers[0], m.seam, both),
            context(m.bos, m.strangers[1], m.seam, both),
        ),
    )


def from_start(m: Material) -> Built:
    """The donor began with the text itself: its first token was the attention sink."""
    text = Piece(m.text, "text")
    return Built(
        target=context(m.bos, m.head, m.kin[2], m.seam, text),
        without=context(m.bos, m.head, m.kin[2]),
        own=context(m.bos, text),
        similar=context(m.bos, m.head, m.kin[1], m.seam, text),
        unlike=_behind_strangers(m, text),
    )


SITUATIONS = {
    "moved": moved,
    "reordered": reordered,
    "truncated": truncated,
    "user-prefix": user_prefix,
    "from-start": from_start,
}


def build(prompts: Sequence[Prompt], index: int, situation: str, frame: Frame) -> Case:
    prompt = prompts[index]
    built = SITUATIONS[situation](_material(prompts, index, situation, frame))
    earlier = [
        Earlier("own", built.own),
        Earlier("similar", built.similar),
        *(Earlier("unlike", unlike) for unlike in built.unlike),
    ]
    random.Random(f"{prompt.id} {situation}").shuffle(earlier)
    case = Case(
        prompt=prompt.id,
        situation=situation,
        target=built.target,
        without=built.without,
        question=(*frame.tokens(f"\n\n{prompt.question}"), *frame.tail),
        answer=frame.tokens(prompt.answer)[:ANSWER_TOKENS],
        earlier=tuple(earlier),
    )
    check(case)
    return case


def _material(prompts: Sequence[Prompt], index: int, situation: str, frame: Frame) -> Material:
    """Each situation has its own documents, so that cases of one prompt differ."""
    step = 3 * list(SITUATIONS).index(situation)

    def document(distance: int) -> Tokens:
        text = prompts[(index + distance) % len(prompts)].text
        return frame.tokens(text)[:DOCUMENT_TOKENS]

    return Material(
        bos=frame.bos,
        seam=frame.seam,
        head=frame.head(SYSTEM),
        other_head=frame.head(OTHER_SYSTEM),
        text=frame.tokens(prompts[index].text),
        kin=tuple(document(2 * (step + i)) for i in (1, 2, 3)),
        strangers=tuple(document(2 * (step + i) + 1) for i in (0, 1)),
    )


def _behind_strangers(m: Material, text: Piece) -> tuple[Context, Context]:
    one, other = (context(m.bos, m.other_head, s, m.seam, text) for s in m.strangers)
    return one, other
