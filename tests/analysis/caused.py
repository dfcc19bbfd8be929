"""Replays of small traces with the causes of what they missed, and conversations in whole words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from replay.prepared_requests import replay

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.causes import RequestCauses, causes_of
from kvtool.analysis.served import CauseSettings, Served
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepared import PreparedRequest, Symbols, Unit
from kvtool.traces.render import Renderer
from kvtool.traces.trace_request import ChatPrompt, Json, Place, TraceRequest

WORDS = Unit(1, 4)


class Caused(NamedTuple):
    requests: list[PreparedRequest]
    served: list[Served]
    found: list[RequestCauses]
    accesses: Accesses
    settings: CauseSettings

    @property
    def causes(self) -> list[dict[str, int]]:
        return [dict(one.causes) for one in self.found]


def caused(
    requests: Sequence[PreparedRequest],
    num_blocks: int,
    *,
    unit: Unit = WORDS,
    ttl_s: float | None = None,
    cache: dict[str, Any] | None = None,
    **replayed: Any,
) -> Caused:
    requests = list(requests)
    cache = {"min_run": 8, "repair": "none", **(cache or {})}
    outcomes, _ = replay(requests, num_blocks, unit=unit, cache=cache, **replayed)
    served = [
        Served(
            position=position,
            **{name: getattr(outcome, name) for name in Served._fields[1:]},
        )
        for position, outcome in enumerate(outcomes)
    ]
    settings = CauseSettings(
        unit=unit,
        capacity_blocks=num_blocks,
        evict=cache.get("evict", "lru"),
        prefix_index=cache.get("prefix_index", "radix"),
        reuse=cache.get("reuse", "prefix"),
        min_run=cache["min_run"],
        output_kv=replayed.get("output_kv", False),
        repair=cache["repair"],
        ttl_s=ttl_s,
    )
    accesses = Accesses.of(requests, unit)
    found = list(causes_of(requests, served, accesses, settings))
    return Caused(requests, served, found, accesses, settings)


class Words:
    """A token a word, with the white space behind it."""

    name = "words"
    limits = ""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._words: list[str] = []

    def encode(self, text: str) -> Symbols:
        ids = [self._ids.setdefault(w, len(self._ids)) for w in re.findall(r"\S+\s*|\s+", text)]
        self._words = list(self._ids)
        return np.array(ids, dtype=np.int32)

    def decode(self, ids: Sequence[int] | Symbols) -> str:
        return "".join(self._words[i] for i in ids)


class Chats:
    """Chats as the plain form renders them: a word for the header of a message, one for its end,
    and one where the reply begins."""

    def __init__(self) -> None:
        self.rendering = PlainRendering(Words())
        self._renderer = Renderer(self.rendering)
        self.requests: list[PreparedRequest] = []

    def ask(
        self,
        messages: Sequence[Json],
        *,
        session: str | None = "s",
        reply: Json | str | None = None,
        tools: Sequence[Json] = (),
        **fields: Any,
    ) -> PreparedRequest:
        index = len(self.requests)
        request = TraceRequest(
            id=f"r{index}",
            place=Place("chats.jsonl", index + 1),
            prompt=ChatPrompt(tuple(messages), tuple(tools)),
            session=session,
            reply=reply,
            arrival_s=float(index),
            **fields,
        )
        self.requests.append(self._renderer.render(index, request))
        return self.requests[-1]


def said(role: str, *words: str) -> Json:
    return {"role": role, "content": " ".join(words)}


def words(name: str, count: int) -> list[str]:
    """That nothing else says."""
    return [f"{name}{i}" for i in range(count)]
