"""A request as a line of an OpenAI chat log that reads back as the same request."""

from __future__ import annotations

from typing import Any

from kvtool.traces.openai_chat import OWN
from kvtool.traces.trace_request import ChatPrompt, TextPrompt, TraceRequest


def chat_record(request: TraceRequest) -> dict[str, Any]:
    """What the provider counted is left out: it was counted for the prompt as recorded."""
    record = _known(
        id=request.id,
        timestamp=request.arrival_s,
        session_id=request.session,
        model=request.model,
    )
    own = _known(adapter=request.adapter, salt=request.salt, priority=request.priority or None)
    own |= {"after": list(request.after), "delay_s": request.delay_s}
    return record | {OWN: own} | _prompt(request) | _response(request)


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _prompt(request: TraceRequest) -> dict[str, Any]:
    prompt = request.prompt
    if isinstance(prompt, TextPrompt):
        return {"prompt": prompt.text}
    assert isinstance(prompt, ChatPrompt)
    tools = {"tools": list(prompt.tools)} if prompt.tools else {}
    return {"messages": list(prompt.messages), **tools}


def _response(request: TraceRequest) -> dict[str, Any]:
    response: dict[str, Any] = {}
    reply = request.reply
    if isinstance(reply, str) and isinstance(request.prompt, TextPrompt):
        response["choices"] = [{"text": reply}]
    elif reply is not None:
        message = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
        response["choices"] = [{"message": message}]
    if request.output_tokens is not None:
        response["usage"] = {"completion_tokens": request.output_tokens}
    return {"response": response} if response else {}
