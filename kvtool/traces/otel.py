"""Spans of OpenTelemetry's GenAI conventions, whose names are still in motion: each of their
spellings is read, those of OpenLLMetry among them."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.traces.otel_messages import prompt_of, reply_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import text, whole
from kvtool.traces.spans import Span, attributes_of, raw_spans, requests_of_spans
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import Recorded, TraceRequest
from kvtool.traces.usage import inclusive

MODEL_CALLS = ("chat", "text_completion", "generate_content", "completion")
SESSION = (
    "gen_ai.conversation.id",
    "session.id",
    "gen_ai.session.id",
    "traceloop.association.properties.session_id",
)
INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens")
OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
)
CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.input_tokens_details.cached",
    "gen_ai.usage.prompt_tokens_details.cached_tokens",
    "gen_ai.usage.cached_tokens",
)
WRITTEN = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
)


def recognise(head: Head) -> str | None:
    for record in head.records:
        try:
            found = any(_is_gen_ai(span) for span in raw_spans(record))
        except BadRecord:
            return None
        if found:
            return "attributes gen_ai.*: OpenTelemetry GenAI spans"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    return requests_of_spans(file, log, is_model_call, _request)


def is_model_call(span: Span) -> bool:
    """Spans of agents and tools repeat the messages of the calls inside them."""
    operation = span.attributes.get("gen_ai.operation.name")
    if operation is None:
        operation = span.attributes.get("llm.request.type")
    if operation is None:
        return "gen_ai.request.model" in span.attributes
    return operation in MODEL_CALLS


def _request(span: Span) -> TraceRequest:
    fields = span.attributes
    prompt_tokens, cached = inclusive(
        whole(fields, *INPUT), whole(fields, *CACHED), whole(fields, *WRITTEN)
    )
    return TraceRequest(
        id=span.id,
        place=span.place,
        prompt=prompt_of(span),
        arrival_s=span.started_s,
        session=text(fields, *SESSION) or span.trace_id,
        model=text(fields, "gen_ai.response.model", "gen_ai.request.model"),
        output_tokens=whole(fields, *OUTPUT),
        reply=reply_of(span),
        recorded=Recorded(
            prompt_tokens=prompt_tokens, cached_tokens=cached, duration_s=span.duration_s
        ),
    )


def _is_gen_ai(span: object) -> bool:
    return isinstance(span, dict) and any(
        name.startswith("gen_ai.") for name in attributes_of(span)
    )


FORMAT = Format("otel", "OpenTelemetry GenAI spans", recognise, read)
