"""What would save work on this trace: every kind of advice, replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from kvtool.advice.advice import Advice, Figures
from kvtool.advice.combine import combination
from kvtool.advice.kinds import REWRITINGS, SETTINGS
from kvtool.advice.prompt_diff import prompt_diff
from kvtool.advice.rewrite import Rewrite
from kvtool.advice.situation import Kind, Proposal, Situation
from kvtool.errors import CacheError
from kvtool.replay.totals import Totals
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload
from kvtool.traces.trace_request import ChatPrompt

MAX_REQUESTS = 20_000
MIN_SHARE = 0.001  # of the prompt tokens; less is not worth a change
MAX_DIFF_LINES = 40

Progress = Callable[[str], None]


def advise(
    workload: Workload,
    settings: SimulationSettings,
    num_blocks: int,
    base: Totals,
    causes: Mapping[str, int],
    *,
    progress: Progress,
    max_requests: int = MAX_REQUESTS,
) -> list[Advice]:
    """Most gain first. What is not tried, `not_advised` tells.

    base: of the replay without a model at this capacity. causes: missed tokens by cause. Kinds
    overlap, so their gains do not add up; rewritings that go together are also given as one.
    """
    before = Figures.of(base)
    if len(workload) > max_requests or before.work_tokens == 0:
        return []
    situation = Situation(
        workload=workload,
        settings=settings,
        num_blocks=num_blocks,
        before=before,
        causes=causes,
    )
    least = max(1, int(MIN_SHARE * before.prompt_tokens))
    found = list(_given(situation, progress))
    worth = [advice for advice in found if advice.gain_tokens >= least]
    return sorted(worth, key=lambda advice: -advice.gain_tokens)


def not_advised(workload: Workload, *, max_requests: int = MAX_REQUESTS) -> dict[str, str]:
    """Which advice this trace has no answer to, and why."""
    if len(workload) > max_requests:
        return {
            "advice": f"the trace has {len(workload):,} requests; advice is replayed up to "
            f"{max_requests:,}"
        }
    if workload.trace.kind != "text":
        reason = "it has hash ids, and no text that could be put in another order"
    elif not any(isinstance(request.prompt, ChatPrompt) for request in workload.trace):
        reason = "prompts are one text each: which of it may move is not known without messages"
    else:
        return {}
    return {"rewriting_advice": f"not measurable on this trace: {reason}"}


def _given(situation: Situation, progress: Progress) -> Iterator[Advice]:
    rewritings: dict[str, list[Proposal]] = {}
    if situation.has_text:
        for name, kind in _loaded(REWRITINGS):
            progress(f"Advice: {name}")
            rewritings[name] = list(kind(situation))
            yield from _best(name, rewritings[name], situation)
        progress("Advice: all rewritings together")
        yield from combination(rewritings, situation, _with_diff)
    for name, kind in _loaded(SETTINGS):
        progress(f"Advice: {name}")
        yield from _best(name, kind(situation), situation)


def _loaded(kinds: Mapping[str, str]) -> Iterator[tuple[str, Kind]]:
    for name, target in kinds.items():
        module, attribute = target.split(":")
        yield name, getattr(import_module(module), attribute)


def _best(name: str, proposals: Iterable[Proposal], situation: Situation) -> Iterator[Advice]:
    """The proposal of a kind that saves most; the first of equals."""
    found: list[Advice] = []
    for proposal in proposals:
        try:
            totals = proposal.replay()
        except CacheError:
            continue  # a request does not fit then
        found.append(
            Advice(
                id=name,
                title=proposal.title,
                why=proposal.why,
                before=situation.before,
                after=Figures.of(totals),
                command=proposal.command,
                rewrite=proposal.rewrite,
            )
        )
    if found:
        best = max(found, key=lambda advice: advice.gain_tokens)
        yield _with_diff(best, situation)


def _with_diff(advice: Advice, situation: Situation) -> Advice:
    if advice.rewrite is None or advice.gain_tokens <= 0:
        return advice
    return replace(advice, diff=first_diff(advice.rewrite, situation))


def first_diff(rewrite: Rewrite, situation: Situation) -> str | None:
    requests = situation.requests()
    for old, new in zip(requests(), rewrite(requests)):
        if new is not old and (found := prompt_diff(old, new)):
            lines = found.splitlines()
            more = (
                [f"… {len(lines) - MAX_DIFF_LINES} more lines"]
                if len(lines) > MAX_DIFF_LINES
                else []
            )
            return "\n".join([*lines[:MAX_DIFF_LINES], *more])
    return None
