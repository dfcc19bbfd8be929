"""What kvtool adds to traces that it writes, where a format has no place for it.

id, after, delay_s, adapter, salt, priority     as in `TraceRequest`
prompt_tokens, cached_tokens                    as recorded
alone                                           true: the request is of no session
rest                                            true: the last hash id is of a rest of text
                                                that fills no block, which no cache finds
"""

from __future__ import annotations

from dataclasses import replace

from kvtool.traces.record import inner, number, text, texts, whole
from kvtool.traces.trace_request import BlockPrompt, Json, TraceRequest

OWN = "kvtool"
SMALLEST_PRIORITY = -(2**31)


def with_own(request: TraceRequest, fields: Json, arrival_s: float | None) -> TraceRequest:
    """The request as it was before it was exported; unchanged where kvtool did not write it.
    arrival_s: as `fields` have it. Raises `BadRecord`."""
    if fields.get(OWN) is None:
        return request
    own = inner(fields, OWN)
    prompt = request.prompt
    if own.get("rest") is True and isinstance(prompt, BlockPrompt):
        prompt = prompt._replace(hash_ids=prompt.hash_ids[:-1])
    recorded = replace(
        request.recorded,
        prompt_tokens=whole(own, "prompt_tokens"),
        cached_tokens=whole(own, "cached_tokens"),
    )
    return replace(
        request,
        id=text(own, "id") or request.id,
        prompt=prompt,
        arrival_s=arrival_s,
        session=None if own.get("alone") is True else request.session,
        after=texts(own, "after"),
        delay_s=number(own, "delay_s") or 0.0,
        adapter=text(own, "adapter"),
        salt=text(own, "salt"),
        priority=whole(own, "priority", least=SMALLEST_PRIORITY) or 0,
        recorded=recorded,
    )
