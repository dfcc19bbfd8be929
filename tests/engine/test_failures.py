"""What goes wrong with one request, or in mid-step, stays there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest
import tiny
from engine.toy_engine import expected, held_blocks, run, toy_engine, toy_request

from kvtool.engine import scheduler, waiting_queue
from kvtool.engine.engine import Engine
from kvtool.engine.output import TextOutput
from kvtool.engine.request import Request, RequestStatus
from kvtool.engine.stream import stream
from kvtool.errors import CacheError, InputError, ModelError

TRACED = {scheduler.__file__, waiting_queue.__file__}

Line = tuple[str, int]  # file, number


def output_of(request: Request) -> TextOutput:
    return TextOutput(request, tiny.tokenizer())


def failing(engine: Engine, request: Request, at: int) -> Engine:
    """`request` gets an error in place of its output token number `at`."""
    execute = engine.executor.execute

    def fail(batch):
        output = execute(batch)
        if request.id in output and request.num_output_tokens == at:
            output[request.id] = ModelError("no distribution")
        return output

    engine.executor.execute = fail
    return engine


@pytest.mark.parametrize("at", [0, 2])
def test_a_request_that_fails_ends_alone(at: int) -> None:
    bad, good = toy_request(range(5)), toy_request([4, 3, 2, 1, 0])
    engine = failing(toy_engine(), bad, at)
    deltas = list(stream(engine, [output_of(bad), output_of(good)]))
    ends = {d.output.request.id: d.output.finish_reason for d in deltas if d.output.finish_reason}
    assert ends == {bad.id: "error", good.id: "length"}
    assert bad.error is not None and bad.error.message == "no distribution"
    assert bad.num_output_tokens == bad.timing.num_tokens == at
    assert good.error is None and good.output_ids == expected(good)
    assert held_blocks(engine) == 0 and not engine.has_work


def test_kv_of_the_step_that_failed_is_not_kept() -> None:
    bad = toy_request([1] * 9)
    engine = failing(toy_engine(max_num_batched_tokens=4), bad, 0)
    run(engine, bad)
    assert engine.manager.match(bad.prompt_ids) == 8  # of the chunks before it


def test_a_request_that_is_refused_ends_the_stream_with_its_own_error() -> None:
    engine = toy_engine(num_blocks=4)
    outputs = [output_of(r) for r in (toy_request([1]), toy_request([1] * 99), toy_request([2]))]
    with pytest.raises(CacheError):
        list(stream(engine, outputs))
    assert [output.finish_reason for output in outputs] == ["abort"] * 3
    assert not engine.has_work


def test_abort_before_add() -> None:
    engine, request = toy_engine(), toy_request([1])
    engine.abort(request)
    assert request.finish_reason == "abort"
    with pytest.raises(InputError, match="it is finished"):
        engine.add(request)


def test_a_request_enters_once() -> None:
    engine, request = toy_engine(), toy_request([1, 2, 3])
    for status in (RequestStatus.WAITING, RequestStatus.RUNNING):
        if status is RequestStatus.WAITING:
            engine.add(request)
        else:
            engine.step()
        assert request.status is status
        with pytest.raises(InputError, match=f"added before; it is {status.value}"):
            engine.add(request)
    run(engine)
    with pytest.raises(InputError, match="it is finished"):
        engine.add(request)
    assert request.output_ids == expected(request) and held_blocks(engine) == 0


class _Interrupt:
    """Raises KeyboardInterrupt where the line `at` runs for the `turn`-th time."""

    def __init__(self, at: Line | None, turn: int) -> None:
        self._at = at
        self._turn = turn
        self.counts: Counter[Line] = Counter()

    def __call__(self, frame: FrameType, event: str, arg: object) -> Callable[..., object] | None:
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            self.counts[line] += 1
            if line == self._at and self.counts[line] == self._turn:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def outputs_to_interrupt() -> list[TextOutput]:
    """Hits, twins and, in 8 blocks, preemptions."""
    prompts = ([0, 1, 2, 3] * 2, [0, 1, 2, 3] * 2, [0, 1, 4, 4], [3])
    return [output_of(toy_request(prompt, 8)) for prompt in prompts]


def run_traced(outputs: list[TextOutput], at: Line | None, turn: int = 0) -> Counter[Line]:
    """How often each line ran."""
    engine = toy_engine(num_blocks=8, watermark=0.0)
    interrupt, before = _Interrupt(at, turn), sys.gettrace()
    sys.settrace(interrupt)
    try:
        for _ in stream(engine, outputs):
            pass
    finally:
        sys.settrace(before)
    return interrupt.counts


def test_an_interrupt_at_any_line_of_the_scheduler_comes_through_and_ends_all_requests() -> None:
    outputs = outputs_to_interrupt()
    counts = run_traced(outputs, at=None)
    assert [o.finish_reason for o in outputs] == ["length"] * 4
    assert any(output.request.num_preemptions for output in outputs)
    for line, count in counts.items():
        for turn in {1, count}:
            outputs = outputs_to_interrupt()
            with pytest.raises(KeyboardInterrupt):
                run_traced(outputs, line, turn)
            assert all(output.request.is_finished for output in outputs), line


def test_after_an_interrupt_in_the_bookkeeping_requests_can_only_be_ended() -> None:
    engine, request = toy_engine(), toy_request([1, 2, 3])
    engine.add(request)
    engine.scheduler.update = _raise_interrupt
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    for use in (engine.step, lambda: engine.add(toy_request([1]))):
        with pytest.raises(AssertionError, match="can only be ended"):
            use()
    engine.abort(request)
    assert request.finish_reason == "abort"


def _raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
