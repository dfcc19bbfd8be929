"""`--apply`: the trace with the advice that rewrites it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvtool.advice.advice import Advice
from kvtool.advice.chat_record import chat_record
from kvtool.advice.kinds import REWRITINGS
from kvtool.advice.prompt_diff import prompt_diff
from kvtool.advice.rewrite import Rewrite, composed
from kvtool.errors import InputError
from kvtool.simulation.workload import Workload

MAX_DIFFS = 20  # requests


def chosen(advice: Sequence[Advice]) -> tuple[tuple[str, ...], Rewrite]:
    """The kinds that are applied, and how: the combination that was replayed, where there is one,
    else all that rewrite, in the order in which they are combined."""
    combined = next((one for one in advice if one.parts), None)
    if combined is not None:
        assert combined.rewrite is not None
        return combined.parts, combined.rewrite
    rewrites = {one.id: one.rewrite for one in advice if one.rewrite is not None}
    ids = tuple(name for name in REWRITINGS if name in rewrites)
    return ids, composed([rewrites[name] for name in ids])


def write_rewritten(workload: Workload, advice: Sequence[Advice], path: Path) -> dict[str, Any]:
    """As OpenAI chat requests, one a line. Raises `InputError` for a trace without text."""
    if workload.trace.kind != "text":
        raise InputError(
            f"{workload.trace.format.title} has no text to rewrite.",
            hint="Drop --apply; advice on settings needs no other trace.",
        )
    ids, rewrite = chosen(advice)
    requests = workload.requests or (lambda: iter(workload.trace))
    total, changed, diffs = 0, 0, []
    with path.open("w", encoding="utf-8") as file:
        for old, new in zip(requests(), rewrite(requests), strict=True):
            file.write(json.dumps(chat_record(new), ensure_ascii=False) + "\n")
            total += 1
            if found := _diff(old, new):
                changed += 1
                diffs += [found] if changed <= MAX_DIFFS else []
    return {
        "path": str(path),
        "requests": total,
        "changed_requests": changed,
        "advice": list(ids),
        "diff": "\n".join(diffs),
        "diff_requests": len(diffs),
    }


def _diff(old: Any, new: Any) -> str:
    return "" if new is old else prompt_diff(old, new)
