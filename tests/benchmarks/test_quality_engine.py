"""The benchmark's tables, made by hand, against what the engine makes of the same requests."""

import numpy as np
import pytest
from shift.shift_engine import logits_of, movable, reply, shift_engine, text

from benchmarks.quality.arms import Arm
from benchmarks.quality.bench import Bench
from benchmarks.quality.case import Case, Earlier, Piece, context
from benchmarks.quality.donors import donate, store
from benchmarks.quality.passes import run_arm

BLOCK_SIZE = 4
CHUNK = tuple(text(60, seed=1))
FRONT, TARGET_FRONT = tuple(text(16, seed=2)), tuple(text(40, seed=4))
QUESTION = tuple(text(7, seed=5))
ARMS = {
    "none": Arm("none"),
    "first:13": Arm("first:13", leading="first:13"),
    "attn:0.2": Arm("attn:0.2", select="attn", share=0.2),
    "vdev:0.2": Arm("vdev:0.2", select="vdev", share=0.2),
}


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
@pytest.mark.parametrize("repair", ARMS)
def test_the_engine_gives_the_logits_of_the_hand_made_table(name: str, repair: str) -> None:
    model, chunk = movable(name), Piece(CHUNK, "text")
    case = Case(
        prompt="prompt",
        situation="moved",
        target=context(TARGET_FRONT, chunk),
        without=context(TARGET_FRONT),
        question=QUESTION,
        answer=(5,),
        earlier=(Earlier("own", context(FRONT, chunk)),),
    )
    made = Bench(model, 96, BLOCK_SIZE)
    exact = made.take(len(case.tokens))
    table = made.entries(exact, 0, len(case.tokens))
    made.compute(case.tokens, np.arange(len(case.tokens)), table, 1)
    arm = ARMS[repair]
    runs = [piece.run for piece in donate(made, case, arm, store(made, case))]
    result = run_arm(made, case, arm, runs, exact)

    engine = shift_engine(model, cache={"repair": repair})
    reply(engine, [*FRONT, *CHUNK])
    request = reply(engine, case.tokens[:-1], max_tokens=1)
    engine.check_integrity()
    assert request.usage.recomputed_tokens == result.num_recomputed
    assert request.usage.shifted_tokens == len(CHUNK) - result.num_recomputed
    last_of_prompt = result.logits[len(QUESTION) - 1].numpy()
    np.testing.assert_allclose(logits_of(request)[0], last_of_prompt, rtol=0, atol=1e-4)
