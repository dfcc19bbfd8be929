"""`--why`: which tokens of a prompt hit, and the reason for each one that does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvtool.cli.inspect_difference import difference_lines, namespace_lines
from kvtool.cli.inspect_model import identity_of, rules_of
from kvtool.cli.inspect_prompt import asked_tokens, read_asked
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count, namespace_line
from kvtool.cli.output import write, write_json
from kvtool.config import EngineConfig
from kvtool.inspection.prompt_span import Span
from kvtool.inspection.why import Explanation, explain
from kvtool.tiers.disk.catalog import Catalog

BAR_WIDTH = 48


def show_why(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Every token of a prompt: a hit, or the reason why not."""
    conversation = read_asked(request)
    identity = identity_of(engine, request.reuse_scheme)
    tokens = asked_tokens(identity, conversation, raw=request.raw)
    decode = identity.tokenizer.decode
    write_explanation(
        explain(catalog, identity.namespace, tokens, rules_of(engine), decode), request.format
    )


def write_explanation(explanation: Explanation, format: str) -> None:
    if format == "json":
        write_json(explanation)
    else:
        write("".join(f"{line}\n" for line in explanation_lines(explanation)))


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    total, hits = explanation.prompt_tokens, explanation.hit_tokens
    share = f"{hits / total:.0%}"
    yield f"{count(total, 'token')}: {hits:,} hit ({share}), {total - hits:,} to compute"
    yield f"looked up under {namespace_line(explanation.namespace)}"
    yield _bar(explanation)
    for span in explanation.spans:
        yield ""
        yield from _span_lines(span)


def _bar(explanation: Explanation) -> str:
    """One character a share of the prompt; a hit shows if any of it falls there."""
    is_hit = np.zeros(explanation.prompt_tokens, dtype=bool)
    for span in explanation.spans:
        is_hit[span.start : span.end] = span.kind == "hit"
    width = min(BAR_WIDTH, explanation.prompt_tokens)
    return "".join("█" if part.mean() > 0.5 else "░" for part in np.array_split(is_hit, width))


def _span_lines(span: Span) -> Iterator[str]:
    what = f"[{span.start}, {span.end})  {count(span.num_tokens, 'token')}: {span.kind}"
    yield f"{what}, {span.tier}" if span.kind == "hit" else f"{what}, {span.detail}"
    if span.first_difference is not None:
        yield from difference_lines(span.first_difference, "prompt", "stored")
    if span.differences:
        if span.reason == "nothing_stored":
            yield "    the namespace that comes closest differs:"
        yield from namespace_lines(span.differences)
