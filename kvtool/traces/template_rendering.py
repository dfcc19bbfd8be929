"""A chat as the model's own template and tokenizer render it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvtool.errors import InputError
from kvtool.traces.encoding_memo import EncodingMemo
from kvtool.traces.message_marks import MessageMarks, Span, found_by_content
from kvtool.traces.plain_rendering import call_text
from kvtool.traces.prepared import Segment, Symbols
from kvtool.traces.rendering import ChatTokenizer, Part, Rendered
from kvtool.traces.trace_request import ChatPrompt, Json, TextPrompt


class TemplateRendering:
    """The whole text is rendered anew for each request, and tokenised in parts from one control
    token to the next, of which only those not seen before are work."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self._encode_part = EncodingMemo(tokenizer.encode_part)
        self._encode = EncodingMemo(tokenizer.encode)
        self._marks = MessageMarks()
        self._last: tuple[ChatPrompt, str] | None = None

    @property
    def name(self) -> str:
        return f"the chat template of {self._tokenizer.name}"

    @property
    def limits(self) -> str:
        return self._tokenizer.limits

    def prompt(self, prompt: ChatPrompt | TextPrompt) -> Rendered:
        if isinstance(prompt, TextPrompt):
            return Rendered(self._encode(prompt.text))
        text = self._text(prompt)
        parts = self._tokenizer.parts(text)
        ids, starts = self._encoded(parts)
        spans = widened(self._spans(prompt, text), text, parts)
        return Rendered(ids, tuple(tiled(spans, starts)))

    def reply(self, prompt: ChatPrompt | TextPrompt, reply: Json | str) -> Symbols:
        """What the template puts behind the prompt for it, up to the last control token; where the
        template renders it otherwise once it is history, its plain text."""
        message: Json = {"content": reply} if isinstance(reply, str) else reply
        if isinstance(prompt, ChatPrompt):
            whole = (*prompt.messages, {**message, "role": "assistant"})
            before = self._text(prompt)
            after = self._tokenizer.render(whole, prompt.tools, add_generation_prompt=False)
            if after.startswith(before) and len(after) > len(before):
                return self._encoded(_emitted(self._tokenizer.parts(after[len(before) :])))[0]
        calls = [call_text(call) for call in message.get("tool_calls") or ()]
        text = "\n".join(filter(None, (message.get("content"), *calls)))
        return self._encoded([Part(text, 0)])[0]

    def decode(self, symbols: Sequence[int] | Symbols) -> str:
        return self._tokenizer.decode(symbols)

    def _text(self, prompt: ChatPrompt) -> str:
        """Rendered once for the prompt and for its reply."""
        if self._last is None or self._last[0] is not prompt:
            text = self._tokenizer.render(prompt.messages, prompt.tools, add_generation_prompt=True)
            self._last = prompt, text
        return self._last[1]

    def _spans(self, prompt: ChatPrompt, text: str) -> list[Span]:
        try:
            messages, tools = self._marks.marked(prompt)
            marked = self._tokenizer.render(messages, tools, add_generation_prompt=True)
        except InputError:  # the template looks into a text, and the marks are in its way
            return found_by_content(text, prompt)
        without, spans = self._marks.taken_out(marked, prompt)
        return spans if without == text else found_by_content(text, prompt)

    def _encoded(self, parts: list[Part]) -> tuple[Symbols, npt.NDArray[Any]]:
        """Ids of the whole text, and the character at which each begins."""
        encoded = [self._encode_part(part.text) for part in parts]
        origins = np.cumsum([0, *(len(part.text) for part in parts)])
        ids = [part.ids for part in encoded]
        starts = [part.starts + origin for part, origin in zip(encoded, origins)]
        return np.concatenate([_NONE, *ids]), np.concatenate([_NONE, *starts])


_NONE = np.empty(0, np.int32)


def widened(spans: list[Span], text: str, parts: list[Part]) -> list[Span]:
    """Tools and calls with the JSON around their texts: to the ends of their lines, as far as no
    control token and no other part is in the way."""
    walls = [0]
    for part in parts:
        walls += [walls[-1] + part.control, walls[-1] + len(part.text)]
    result: list[Span] = []
    for i, span in enumerate(spans):
        if span.field == "content":
            result.append(span)
            continue
        least = max(result[-1].stop if result else 0, _last(walls, span.start))
        most = min(spans[i + 1].start if i + 1 < len(spans) else len(text), _next(walls, span.stop))
        start = text.rfind("\n", least, span.start) + 1 or least
        stop = text.find("\n", span.stop, most)
        result.append(span._replace(start=start, stop=most if stop < 0 else stop))
    return result


def _last(walls: list[int], position: int) -> int:
    return walls[bisect_right(walls, position) - 1]


def _next(walls: list[int], position: int) -> int:
    return walls[min(bisect_left(walls, position), len(walls) - 1)]


def tiled(spans: list[Span], starts: npt.NDArray[Any]) -> list[Segment]:
    """A token belongs to the part that its first character is in; the rest is the template's."""
    segments: list[Segment] = []
    done = 0
    edges = np.searchsorted(starts, [edge for span in spans for edge in span[:2]]).tolist()
    for i, span in enumerate(spans):
        start = max(done, edges[2 * i])
        stop = edges[2 * i + 1]
        if stop <= start:
            continue
        if start > done:
            segments.append(Segment(done, start, -1, "template"))
        segments.append(Segment(start, stop, span.message, span.field))
        done = stop
    if done < len(starts):
        segments.append(Segment(done, len(starts), -1, "template"))
    return segments


def _emitted(parts: list[Part]) -> list[Part]:
    """Without the white space that the template puts behind the end of a turn."""
    *before, last = parts
    if last.control and not last.text[last.control :].strip():
        last = Part(last.text[: last.control], last.control)
    return [*before, last]
