"""`--explain`: everything about the misses of one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.causes import RequestCauses, causes_of
from kvtool.analysis.causes import cause as names
from kvtool.analysis.causes.changed_chat import TOOLS, part_at
from kvtool.analysis.comparison import Comparison, comparison, position_of
from kvtool.analysis.first_difference import Decode, FirstDifference, first_difference
from kvtool.analysis.remedies import remedy
from kvtool.analysis.served import CauseSettings, Served
from kvtool.traces.content import compact
from kvtool.traces.prepared import PreparedRequest
from kvtool.traces.trace_request import ChatPrompt, Json

MAX_TEXT = 2000  # characters of a message
HASH_IDS = "hash ids say nothing of messages or text: only where they differ is known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    request: PreparedRequest
    served: Served
    found: RequestCauses
    compared: Comparison
    difference: FirstDifference | None
    is_text: bool
    tokens_per_symbol: int

    def as_json(self) -> dict[str, Any]:
        """Key `explain` of the document."""
        request, served, causes = self.request.request, self.served, self.found.causes
        return {
            "id": request.id,
            "place": str(request.place),
            "session": request.session,
            "prompt_tokens": served.prompt_tokens,
            "hit_tokens": served.hit_tokens,
            "shifted_tokens": served.shifted_tokens,
            "recomputed_tokens": served.recomputed_tokens,
            "missed_tokens": served.missed_tokens,
            "causes": dict(causes),
            "definitions": {name: names.CAUSES[name] for name in causes},
            "spans": list(self._spans()),
            "compared_with": self._other(),
            "shares_most_with": self._longest(),
            "first_difference": None if self.difference is None else asdict(self.difference),
            "rewritten": self._rewritten(),
            "recoverable_by_shift_tokens": self.found.recoverable_by_shift_tokens,
            "capacity_blocks": self.found.capacity_blocks,
            "main_cause": self.main_cause,
            "would_be_hit_rate": self._would_be_hit_rate(),
            "advice": remedy(self.main_cause, self.difference, self.found),
            "notes": [] if self.is_text else [HASH_IDS],
        }

    @property
    def main_cause(self) -> str | None:
        """Of most missed tokens that could have been hits; first sight where none could."""
        causes = self.found.causes
        known = {name: count for name, count in causes.items() if name != names.FIRST_SIGHT}
        return max(known or causes, key=lambda name: causes[name], default=None)

    def _spans(self) -> Iterator[dict[str, Any]]:
        spans: list[tuple[int, int, str, str | None]]
        spans = [(0, self.served.hit_tokens, "hit", None)]
        spans += [(start, stop, "shift", None) for start, stop in self.served.moved]
        spans += [(s.start, s.stop, "miss", s.cause) for s in self.found.spans]
        for start, stop, kind, cause in sorted(spans, key=lambda span: span[:2]):
            if start == stop:
                continue
            part = part_at(self.request.segments, start) if self.request.segments else None
            yield {
                "start": start,
                "stop": stop,
                "kind": kind,
                "cause": cause,
                "message": part.message if part else None,
                "field": part.field if part else None,
                "last_message": self._last_message(stop),
            }

    def _last_message(self, stop: int) -> int | None:
        """That begins in front of this token."""
        segments = self.request.segments
        return max((s.message for s in segments if s.start < stop), default=None)

    def _other(self) -> dict[str, Any] | None:
        other = self.compared.other
        if other is None:
            return None
        request = other.request.request
        shared = self.compared.shared * self.tokens_per_symbol
        return {
            "id": request.id,
            "place": str(request.place),
            "shared_tokens": min(shared, self.served.prompt_tokens),
            "same_session": self.compared.is_same_session,
            "same_namespace": self.compared.is_same_namespace,
        }

    def _longest(self) -> dict[str, Any] | None:
        """Of all earlier requests, whatever their session."""
        longest = self.compared.longest
        if longest is None:
            return None
        shared = min(self.compared.most * self.tokens_per_symbol, self.served.prompt_tokens)
        request = longest.request.request
        return {"id": request.id, "place": str(request.place), "shared_tokens": shared}

    def _rewritten(self) -> dict[str, Any] | None:
        change, other = self.compared.change, self.compared.other
        if change is None or change.message is None or other is None:
            return None
        old, new = other.request.request.prompt, self.request.request.prompt
        assert isinstance(old, ChatPrompt) and isinstance(new, ChatPrompt)
        before = _text(old, change.previous_message)
        if change.previous_message is None:  # a reply
            before = _written(other.request.request.reply)
        return {
            "cause": change.cause,
            "message": change.message,
            "role": new.messages[change.message].get("role") if change.message != TOOLS else None,
            "old": before[:MAX_TEXT],
            "new": _text(new, change.message)[:MAX_TEXT],
        }

    def _would_be_hit_rate(self) -> float | None:
        """Without the main cause. None: there is nothing to be hit."""
        main = self.main_cause
        if main is None or main == names.FIRST_SIGHT:
            return None
        missed = self.served.missed_tokens - self.found.causes[main]
        return 1 - missed / self.served.prompt_tokens


def explain(
    requests: Iterable[PreparedRequest],
    request_id: str,
    served: Sequence[Served],
    accesses: Accesses,
    settings: CauseSettings,
    decode: Decode | None,
) -> Explanation:
    """requests: as for `causes_of`; they are read several times. decode: of text. Raises
    `InputError` for an id that no request has."""
    position = position_of(requests, request_id)
    found = next(
        found
        for found in causes_of(requests, served, accesses, settings)
        if found.position == position
    )
    compared = comparison(requests, position, settings)
    scale = settings.unit.tokens_per_symbol
    return Explanation(
        request=compared.request,
        served=served[position],
        found=found,
        compared=compared,
        difference=first_difference(compared, decode or _no_text, scale),
        is_text=decode is not None,
        tokens_per_symbol=scale,
    )


def _no_text(symbols: object) -> None:
    return None


def _text(prompt: ChatPrompt, message: int | None) -> str:
    if message == TOOLS or message is None:
        return "\n".join(compact(tool) for tool in prompt.tools)
    return _written(prompt.messages[message])


def _written(message: Json | str | None) -> str:
    if message is None or isinstance(message, str):
        return message or ""
    thinking = message.get("reasoning_content")
    calls = [compact(call.get("function", call)) for call in message.get("tool_calls") or ()]
    return "\n".join(filter(None, (thinking, message.get("content"), *calls)))
