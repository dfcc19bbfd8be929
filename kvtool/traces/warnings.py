"""What the user should know of a trace before trusting a figure computed from it."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.traces.arrivals import overlapping
from kvtool.traces.survey import Survey

SHOWN_IDS = 3


def warnings_of(survey: Survey, file_names: list[str], block_size: int | None) -> Iterator[str]:
    yield from _of_size(survey, block_size)
    yield from _of_times(survey, file_names)
    yield from _of_ids(survey)
    yield from _of_models(survey)
    yield from _of_sessions(survey)
    if survey.consistency.kind == "blocks":
        yield _of_hash_ids(survey.predecessors.several)
    if survey.consistency.kind == "lengths":
        yield "The trace has lengths only: it answers questions of load, none about a cache."


def _of_size(survey: Survey, block_size: int | None) -> Iterator[str]:
    if survey.requests == 1:
        yield "The trace has one request: there is nothing it could reuse."
    if block_size is not None and not survey.consistency.fit.stated:
        yield (
            f"The trace does not state its block size; {block_size} tokens is the one size that "
            "every request fits (--trace-block-size sets it)."
        )
    if survey.without_system:
        yield (
            f"{survey.without_system:,} of {survey.requests:,} requests have no system prompt: if "
            "one was sent but not logged, real prompts share more than these."
        )


def _of_times(survey: Survey, file_names: list[str]) -> Iterator[str]:
    arrivals = [file.arrivals for file in survey.files]
    backwards = sum(file.backwards for file in arrivals)
    if backwards:
        place = next(file.first_backwards for file in arrivals if file.first_backwards)
        order = "time, ties in the order of the file" if survey.timed else "the file"
        yield (
            f"Time runs backwards at {backwards:,} requests, first at {place}: requests are taken "
            f"in the order of {order}."
        )
    if len(file_names) > 1:
        merged = "merged by time of arrival" if survey.timed else "taken one after another"
        yield f"{len(file_names)} files are {merged}."


def of_serial_replay(survey: Survey) -> Iterator[str]:
    """What the replay should know that serves one request after another."""
    if not survey.timed:
        return
    if together := overlapping([file.arrivals for file in survey.files]):
        yield (
            f"{together:,} of {survey.requests:,} requests arrive while another is in flight or at "
            "the same moment: a serial replay lets them reuse what was not there yet (--replay "
            "arrival does not)."
        )


def _of_ids(survey: Survey) -> Iterator[str]:
    if repeated := survey.ids.repeated:
        yield (
            f"Request ids are used more than once ({_some(repeated)}): further requests of the "
            "same id are called ID#2, ID#3, …"
        )
    if shared := survey.ids.shared:
        yield f"Several files use the same request ids ({_some(shared)}): they are called FILE:ID."


def _of_sessions(survey: Survey) -> Iterator[str]:
    if survey.later_turns and not survey.with_session:
        yield (
            f"{survey.later_turns:,} of {survey.requests:,} requests go on with a conversation, and "
            "none names its session (session_id and the like): misses whose cause is a changed or "
            "dropped earlier turn are told as diverged or first_sight."
        )


def _of_models(survey: Survey) -> Iterator[str]:
    if len(survey.models) > 1:
        named = (f"{model or 'unnamed'} ({count:,})" for model, count in survey.models.items())
        yield f"Requests of different models never share: {', '.join(named)}."


def _of_hash_ids(several: int) -> str:
    if several:
        return (
            f"{several:,} hash ids follow more than one other: they name a block's content, and "
            "what is in front of it decides about a hit."
        )
    return (
        "No hash id follows two different ones: ids are chained hashes, and reuse at another "
        "position is not measurable on this trace."
    )


def _some(ids: set[str]) -> str:
    first = sorted(ids)[:SHOWN_IDS]
    return ", ".join(first) + (
        f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    )
