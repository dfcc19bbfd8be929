"""A trace through a loaded model, and its measured cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from engine.tiny_engine import tiny_engine
from replay.prepared_requests import prepared, replay

from kvtool.engine.engine import Engine
from kvtool.errors import CacheError, ConfigError, InputError
from kvtool.replay.calibrate import calibrate
from kvtool.replay.model import ModelSettings, replay_on_model
from kvtool.replay.outcome import RequestOutcome
from kvtool.traces.prepared import PreparedRequest


@dataclass(frozen=True)
class Loaded:
    engine: Engine
    vocab_size: int = 128
    eos_ids: frozenset[int] = frozenset()

    @property
    def effective(self) -> Mapping[str, object]:
        return {"dtype": "float32"}

    def namespace(self, salt: str | None) -> bytes:
        return b"model" + (salt or "").encode()


def conversation() -> list[PreparedRequest]:
    prompt = list(range(3, 30))
    turns = []
    for turn in range(3):
        reply = [50 + turn, 51, 52, 53]
        after = (f"r{turn - 1}",) if turn else ()
        turns.append(prepared(turn, prompt, reply=reply, after=after, namespace=b"\x01"))
        prompt = [*prompt, *reply, 60 + turn]
    return turns


def play(
    requests: list[PreparedRequest], model: Loaded | None = None, **settings: object
) -> list[RequestOutcome]:
    outcomes: list[RequestOutcome] = []
    model = model or Loaded(tiny_engine())
    replay_on_model(model, requests, ModelSettings(**settings), on_outcome=outcomes.append)
    assert not model.engine.has_work
    return outcomes


@pytest.mark.parametrize("mode", ["serial", "arrival"])
def test_recorded_replies_hit_as_in_the_simulation(mode: str) -> None:
    simulated, _ = replay(conversation(), 64, mode=mode, output_kv=True)
    real = play(conversation(), mode=mode)
    assert [o.hit_tokens for o in real] == [o.hit_tokens for o in simulated] == [0, 30, 35]
    assert [o.cached_by_tier for o in real] == [o.cached_by_tier for o in simulated]
    assert all(0 < o.ttft_s < o.end_s - o.arrival_s for o in real)


def test_a_reply_recorded_as_empty_is_not_made_up() -> None:
    """The first token ends the request, and leaves no KV; a reply that nothing is known of has
    as many tokens as are allowed."""
    unknown = prepared(0, [3, 4, 5])
    empty = replace(unknown, index=1, request=replace(unknown.request, id="r1", reply=""))
    outcomes = play([unknown, empty], max_tokens=7, block_ids=True)
    assert [outcome.output_tokens for outcome in outcomes] == [7, 0]
    assert [len(outcome.block_ids or ()) for outcome in outcomes] == [3, 1]


def test_generated_replies_are_the_models_own() -> None:
    outcomes = play(conversation(), replies="generate")
    assert [o.output_tokens for o in outcomes] == [4, 4, 4]
    assert outcomes[1].hit_tokens == 27, "the recorded reply is not what the model said"


def test_verify_measures_every_request() -> None:
    for outcome in play(conversation(), verify=True):
        assert outcome.verification is not None
        assert outcome.verification.verdict in ("identical", "within tolerance")
        assert outcome.verification.top1_agreement == 1.0
    with pytest.raises(ConfigError, match="--verify needs --replay serial"):
        ModelSettings(mode="arrival", verify=True)


def test_idle_time_is_skipped() -> None:
    requests = [prepared(i, [5, 6, 7], arrival_s=1e6 * i, reply=[8]) for i in range(2)]
    first, second = play(requests, mode="arrival")
    assert second.arrival_s == 1e6 and second.start_s >= 1e6 and first.end_s < 1e6


def test_requests_the_model_cannot_run_are_named() -> None:
    for symbols, error, text in (
        ([500], InputError, r"trace.jsonl:1: request r0 has token 500; the model has 128"),
        (list(range(3, 103)) * 3, InputError, r"trace.jsonl:1: request r0: The prompt has 300"),
    ):
        with pytest.raises(error, match=text):
            play([prepared(0, symbols, reply=[1])])
    with pytest.raises(CacheError, match=r"trace.jsonl:1: request r0: Prompt"):
        play([prepared(0, [5] * 100, reply=[1])], Loaded(tiny_engine(num_blocks=8)))


def test_an_interrupt_leaves_an_engine_without_requests() -> None:
    model = Loaded(tiny_engine())
    executor = model.engine.executor

    def interrupt(outcome: RequestOutcome) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay_on_model(model, conversation(), ModelSettings(mode="arrival"), on_outcome=interrupt)
    assert not model.engine.has_work and model.engine.executor is executor
    assert model.engine.manager.num_available_blocks == model.engine.manager.num_blocks
    model.engine.check_integrity()


def test_calibration_measures_rates_and_leaves_nothing() -> None:
    engine = tiny_engine()
    cost = calibrate(engine, 128)
    assert np.isfinite([cost.prefill_rate, cost.decode_rate, cost.attention]).all()
    assert engine.manager.stats.stored_blocks == 0
    with pytest.raises(ConfigError, match="--calibrate needs room for 96 tokens"):
        calibrate(tiny_engine(num_blocks=20), 128)
