"""From token ids to text and finish reasons, streamed."""

from __future__ import annotations

import pytest
import tiny
from engine.toy_engine import held_blocks, run, toy_engine

from kvtool.engine.output import TextOutput
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.simulated import SimulatedExecutor
from kvtool.engine.stream import stream

EOS = 2


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(tiny.tokenizer().encode(text))


def engine_that_says():
    """Replies are forced, so the toy executor is not needed."""
    engine = toy_engine(num_blocks=256)
    engine.executor = SimulatedExecutor(engine.executor.groups, vocab_size=200)
    return engine


def output_for(ids: tuple[int, ...], prompt: str = "hi", **sampling) -> TextOutput:
    params = SamplingParams(**{"max_tokens": len(ids), "stop_ids": frozenset({EOS}), **sampling})
    return TextOutput(Request(ids_of(prompt), params, forced_ids=ids), tiny.tokenizer())


def follow(*outputs: TextOutput, engine=None) -> list[str]:
    """Streams all; the text of each in pieces, which must add up to `output.text`."""
    engine = engine or engine_that_says()
    texts = {output.request.id: "" for output in outputs}
    for output, delta in stream(engine, outputs):
        texts[output.request.id] += delta
    assert held_blocks(engine) == 0 and not engine.has_work
    assert [texts[output.request.id] for output in outputs] == [o.text for o in outputs]
    return [output.text for output in outputs]


def test_length() -> None:
    output = output_for(ids_of("hello world"), max_tokens=5)
    assert follow(output) == ["hello"] and output.finish_reason == "length"


def test_eos_ends_the_request_and_is_not_shown() -> None:
    output = output_for((*ids_of("done"), EOS, *ids_of("never")))
    assert follow(output) == ["done"] and output.finish_reason == "eos"
    assert output.request.output_ids[-1] == EOS


def test_ignore_eos() -> None:
    output = output_for((*ids_of("a"), EOS, *ids_of("b")), ignore_eos=True)
    assert follow(output) == ["a<|im_end|>b"] and output.finish_reason == "length"


@pytest.mark.report("S77")
def test_stop_string_ends_the_request_at_once() -> None:
    output = output_for(ids_of("alpha beta gamma delta"), stop=("beta gamma",))
    assert follow(output) == ["alpha "] and output.finish_reason == "stop"
    assert output.request.num_output_tokens == len("alpha beta gamma")


@pytest.mark.report("S77")
def test_held_text_comes_with_the_end() -> None:
    output = output_for(ids_of("alpha beta gam"), stop=("beta gamma",))
    assert follow(output) == ["alpha beta gam"] and output.finish_reason == "length"


def test_stop_string_in_the_last_token_counts_as_stop() -> None:
    output = output_for(ids_of("abc!"), stop=("!",))
    assert follow(output) == ["abc"] and output.finish_reason == "stop"


def test_eos_after_half_a_stop_string() -> None:
    output = output_for((*ids_of("so be"), EOS), stop=("beta",))
    assert follow(output) == ["so be"] and output.finish_reason == "eos"


@pytest.mark.report("S78")
def test_end_in_mid_character() -> None:
    llama = ids_of("x🦙")
    output = output_for(llama, max_tokens=len(llama) - 1)
    assert follow(output) == ["x\ufffd"]


def test_many_at_once_each_with_its_own_text() -> None:
    words = ["first", "second 🦙", "third stop here", "fourth"]
    outputs = [output_for(ids_of(word), prompt=word, stop=("stop",)) for word in words]
    assert follow(*outputs) == ["first", "second 🦙", "third ", "fourth"]
    assert [o.finish_reason for o in outputs] == ["length", "length", "stop", "length"]


def test_abort_flushes_what_was_held() -> None:
    engine = engine_that_says()
    output = output_for(ids_of("alpha beta"), stop=("beta gamma",))
    engine.add(output.request)
    for _ in range(9):
        engine.step()
    engine.abort(output.request)
    assert output.update() == "alpha bet" and output.finish_reason == "abort"
    assert output.update() == ""


def test_caller_that_leaves_early_aborts_the_rest() -> None:
    engine = engine_that_says()
    outputs = [output_for(ids_of("some text"), prompt=p) for p in ("a", "b")]
    deltas = stream(engine, outputs)
    next(deltas)
    deltas.close()
    assert [output.finish_reason for output in outputs] == ["abort", "abort"]
    assert held_blocks(engine) == 0 and not engine.has_work


def test_simulated_tokens_do_not_depend_on_batching() -> None:
    def replies(**options) -> list[list[int]]:
        engine = toy_engine(num_blocks=40, watermark=0.0, **options)
        engine.executor = SimulatedExecutor(engine.executor.groups, vocab_size=1000)
        requests = [Request(range(i, i + 9), SamplingParams(max_tokens=20)) for i in range(6)]
        run(engine, *requests)
        return [request.output_ids for request in requests]

    one_by_one = replies(max_num_seqs=1)
    assert replies() == one_by_one == replies(max_num_batched_tokens=7)
    assert len({token for reply in one_by_one for token in reply}) > 80
