"""Requests with text as the cache sees them."""

from __future__ import annotations

import numpy as np

from kvtool.errors import InputError
from kvtool.traces.prepared import PreparedRequest, Symbols
from kvtool.traces.rendering import Rendering
from kvtool.traces.sharing import namespace_of
from kvtool.traces.trace_request import ChatPrompt, TextPrompt, TraceRequest


class Renderer:
    """with_replies: whether requests carry the symbols of recorded replies; only a replay that
    caches them, or that makes the model say them again, needs more than their length."""

    def __init__(self, rendering: Rendering, *, with_replies: bool = True) -> None:
        self.rendering = rendering
        self._with_replies = with_replies

    def render(self, index: int, request: TraceRequest) -> PreparedRequest:
        """Raises `InputError` "file:line: reason" for a prompt that cannot be rendered or is no
        token long."""
        prompt = request.prompt
        assert isinstance(prompt, ChatPrompt | TextPrompt)
        try:
            rendered = self.rendering.prompt(prompt)
            reply = self._reply(request, prompt)
        except InputError as error:
            raise InputError(f"{request.place}: {error.message}", hint=error.hint) from error
        if not len(rendered.symbols):
            raise InputError(f"{request.place}: the prompt has no tokens.")
        return PreparedRequest(
            index=index,
            request=request,
            symbols=rendered.symbols,
            num_tokens=len(rendered.symbols),
            namespace=namespace_of(request),
            reply=reply if self._with_replies else _NO_REPLY,
            num_output_tokens=len(reply)
            if request.output_tokens is None
            else request.output_tokens,
            segments=rendered.segments,
        )

    def _reply(self, request: TraceRequest, prompt: ChatPrompt | TextPrompt) -> Symbols:
        is_counted = request.output_tokens is not None and not self._with_replies
        if request.reply is None or is_counted:
            return _NO_REPLY
        return self.rendering.reply(prompt, request.reply)


_NO_REPLY = np.empty(0, np.int32)
