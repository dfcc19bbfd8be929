"""`replay_on_model`: a trace through a loaded model, with measured times."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.verify import Verification, verify
from kvtool.errors import CacheError, ConfigError, InputError
from kvtool.replay.arrivals import Arrival, Arrivals, OneByOne, Source
from kvtool.replay.clock import WorkClock
from kvtool.replay.drive import Calls, Drive
from kvtool.replay.outcome import OutcomeSink, RequestOutcome
from kvtool.replay.replay import Progress, ReplayResult
from kvtool.replay.replies import num_output_tokens
from kvtool.replay.settings import MODES
from kvtool.replay.totals import Totals
from kvtool.replay.tracked import Tracked
from kvtool.traces.prepared import PreparedRequest, Unit

REPLIES = ("recorded", "generate")


class LoadedModel(Protocol):
    """What is needed of `kvtool.runtime.Runtime`."""

    @property
    def engine(self) -> Engine: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_ids(self) -> frozenset[int]: ...

    @property
    def effective(self) -> Mapping[str, object]: ...

    def namespace(self, salt: str | None) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """replies: recorded ones are forced token by token, generate: the model speaks for itself,
    as it does where none is recorded; max_tokens: of such replies, where no length is recorded.
    verify: every reply is computed again without reuse; each request has to run alone for that.
    """

    mode: str = "serial"
    replies: str = "recorded"
    max_tokens: int = 64
    verify: bool = False
    block_ids: bool = False

    def __post_init__(self) -> None:
        for option, value, allowed in (
            ("replay", self.mode, MODES),
            ("replies", self.replies, REPLIES),
        ):
            if value not in allowed:
                raise ConfigError(f"--{option} is {value}; allowed: {', '.join(allowed)}.")
        if self.verify and self.mode != "serial":
            raise ConfigError(
                f"--verify needs --replay serial; it is {self.mode}: a request that is computed "
                "again would delay those that run beside it.",
                hint="Drop --verify, or use --replay serial.",
            )


def replay_on_model(
    model: LoadedModel,
    requests: Iterable[PreparedRequest],
    settings: ModelSettings,
    *,
    on_outcome: OutcomeSink | None = None,
    progress: Progress | None = None,
    awaited: Container[str] | None = None,
) -> ReplayResult:
    """Text requests, prepared with the model's own tokenizer. Time is measured; where nothing
    runs, the next arrival is not waited for.

    Raises `InputError`, `ConfigError` or `CacheError`, naming the request, for one that this model
    or cache can never run, and `ModelError` for one without finite logits.
    """
    totals = Totals()

    def end(outcome: RequestOutcome) -> None:
        totals.add(outcome)
        if on_outcome is not None:
            on_outcome(outcome)
        if progress is not None:
            progress(totals.requests)

    manager = model.engine.manager
    evicted = manager.stats.evicted_blocks
    is_serial = settings.mode == "serial"
    source: Source = OneByOne(requests) if is_serial else Arrivals(requests, awaited)
    calls = Calls(track=_track(model, settings), on_outcome=end, verify=_verify(model, settings))
    unit = Unit(1, manager.config.block_size)
    drive = Drive(model.engine, source, WorkClock(), unit, calls, settings.block_ids)
    drive.run()
    totals.evicted_blocks = manager.stats.evicted_blocks - evicted
    totals.peak_held_blocks = manager.peak_held_blocks
    return ReplayResult(totals, drive.occupancy.points)


def _track(model: LoadedModel, settings: ModelSettings) -> Callable[[Arrival], Tracked]:
    def track(arrival: Arrival) -> Tracked:
        prepared = arrival.prepared
        request = _request(model, prepared, settings)
        try:
            model.engine.scheduler.check(request)
        except (InputError, ConfigError, CacheError) as error:
            name = f"{prepared.request.place}: request {prepared.request.id}: "
            raise type(error)(name + error.message, hint=error.hint) from None
        return Tracked(prepared, request, _reply_length(prepared, settings), arrival.arrival_s)

    return track


def _request(model: LoadedModel, prepared: PreparedRequest, settings: ModelSettings) -> Request:
    reply = tuple(prepared.reply.tolist()) if settings.replies == "recorded" else ()
    largest = max(int(prepared.symbols.max()), *reply, 0)
    if largest >= model.vocab_size:
        raise InputError(
            f"{prepared.request.place}: request {prepared.request.id} has token {largest}; "
            f"the model has {model.vocab_size}.",
        )
    length = max(1, _reply_length(prepared, settings))
    sampling = SamplingParams(max_tokens=length, stop_ids=model.eos_ids, ignore_eos=bool(reply))
    return Request(
        prepared.symbols,
        sampling,
        namespace=model.namespace(prepared.namespace.hex() or None),
        priority=prepared.request.priority,
        forced_ids=reply or None,
        keep_logits=settings.verify,
        name=prepared.request.id,
    )


def _reply_length(prepared: PreparedRequest, settings: ModelSettings) -> int:
    """Tokens at most; 0 for a reply that is recorded as empty: the first token ends the request."""
    is_empty = settings.replies == "recorded" and prepared.request.reply is not None
    return num_output_tokens(prepared) or (0 if is_empty else settings.max_tokens)


def _verify(
    model: LoadedModel, settings: ModelSettings
) -> Callable[[Request], Verification | None]:
    if not settings.verify:
        return lambda request: None
    return lambda request: verify(model.engine, request, str(model.effective["dtype"]))
