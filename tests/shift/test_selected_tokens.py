"""Repairs that choose tokens: copied runs, a selecting step, then the chosen rows in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from engine.toy_engine import toy_engine
from shift.shift_engine import logits_of, movable, reply, shift_engine, text

from kvtool.engine.batch import ScheduledSelection, Selected
from kvtool.engine.model_executor import ModelExecutor
from kvtool.errors import ConfigError
from kvtool.reuse.plan import RECOMPUTE, SELECT, SHIFT, Plan, Span
from kvtool.reuse.run import Run
from kvtool.reuse.selected import with_selected

CHUNK = text(60, seed=1)
DONOR = text(16, seed=2) + CHUNK + text(5, seed=3)
TARGET = text(40, seed=4) + CHUNK + text(7, seed=5)
MODELS = ("llama", "gemma3_text", "smollm3", "deepseek_v3")


class ChoosingExecutor(ModelExecutor):
    """Chooses by a rule of the test's own, without a probe."""

    def select(self, selections: Sequence[ScheduledSelection]) -> Mapping[int, Selected]:
        assert all(s.rows.num_tokens for s in selections)
        return {
            s.rows.request.id: Selected(
                tuple(np.arange(c.start, c.stop)[-c.num_selected :] for c in s.candidates), 0
            )
            for s in selections
        }


@pytest.mark.parametrize("rule", ["attn", "vdev", "kdev"])
def test_selecting_everything_is_a_cold_prefill(rule: str) -> None:
    cold = reply(shift_engine(movable("llama")), TARGET, 8, reuse=False)
    engine = shift_engine(movable("llama"), cache={"repair": f"{rule}:1"})
    reply(engine, DONOR)
    request = reply(engine, TARGET, 8)
    assert request.output_ids == cold.output_ids
    assert (request.usage.shifted_tokens, request.usage.recomputed_tokens) == (0, 0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rule", ["attn", "vdev", "kdev"])
def test_a_share_is_chosen_and_computed_again(name: str, rule: str) -> None:
    engine = shift_engine(movable(name), cache={"repair": f"{rule}:0.15"})
    reply(engine, DONOR)
    request = reply(engine, TARGET)
    assert (request.usage.shifted_tokens, request.usage.recomputed_tokens) == (51, 9)
    assert request.usage.computed_tokens == 47
    assert np.isfinite(logits_of(request)).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [5, 256])
def test_chosen_rows_at_the_end_equal_a_run_that_ends_before_them(name: str, budget: int) -> None:
    """Recomputing a run's last 15 tokens is what finding only its first 45 gives."""
    options = {"max_num_batched_tokens": budget}
    engine = shift_engine(
        movable(name), executor=ChoosingExecutor, cache={"repair": "attn:0.25"}, **options
    )
    reply(engine, DONOR)
    request = reply(engine, TARGET)
    assert (request.usage.shifted_tokens, request.usage.recomputed_tokens) == (45, 15)
    engine = shift_engine(movable(name), **options)
    reply(engine, DONOR[:-20] + text(20, seed=9))
    shorter = reply(engine, TARGET)
    assert shorter.usage.shifted_tokens == 45
    np.testing.assert_allclose(logits_of(request), logits_of(shorter), rtol=0, atol=1e-5)


@pytest.mark.parametrize("rule", ["attn", "vdev"])
def test_several_runs_and_chunked_rows(rule: str) -> None:
    prompt = text(21, 6) + CHUNK + text(3, 7) + CHUNK + CHUNK + text(2, 8)
    requests = []
    for budget in (256, 7):
        engine = shift_engine(
            movable("llama"), cache={"repair": f"{rule}:0.2"}, max_num_batched_tokens=budget
        )
        reply(engine, DONOR)
        requests.append(reply(engine, prompt))
        assert requests[-1].usage.recomputed_tokens == 36
    np.testing.assert_allclose(*map(logits_of, requests), rtol=0, atol=1e-5)


def test_donors_stay_as_they_are() -> None:
    model = movable("llama")
    engine = shift_engine(model, cache={"repair": "attn:0.3"})
    reply(engine, DONOR)
    blocks = engine.manager.groups[0].match(np.array(DONOR, np.int32), b"").block_ids[:20]
    before = model.pools[0][blocks].clone()
    reply(engine, TARGET)
    assert bool((model.pools[0][blocks] == before).all())


def test_selecting_repairs_need_an_executor_that_selects() -> None:
    with pytest.raises(ConfigError, match=r"--repair attn:0\.2 needs a model"):
        toy_engine(cache={"reuse": "shift", "repair": "attn:0.2"})


def test_a_selected_span_falls_into_shift_and_recompute() -> None:
    run = Run(4, 14, 3, (1, 2, 3, 4), 1)
    spans = (Span("compute", 0, 4), Span(SELECT, 4, 14, 0, 4), Span("compute", 14, 16))
    plan = with_selected(Plan(16, spans, (run,)), {4: np.array([4, 8, 9, 13])})
    plan.check_integrity()
    assert [(s.kind, s.start, s.stop) for s in plan.spans[1:-1]] == [
        (RECOMPUTE, 4, 5),
        (SHIFT, 5, 8),
        (RECOMPUTE, 8, 10),
        (SHIFT, 10, 13),
        (RECOMPUTE, 13, 14),
    ]
    assert plan.rows.tolist() == [0, 1, 2, 3, 4, 8, 9, 13, 14, 15]
