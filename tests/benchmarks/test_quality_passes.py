"""The forward passes behind benchmarks/reuse_quality.py, against exact ones, on tiny models."""

import paged_run
import pytest
import torch
from benchmarks.quality_cases import (
    BLOCK_SIZE,
    KINDS,
    TEXT_TOKENS,
    bench,
    moved_case,
    reordered_case,
    tokens,
)

from benchmarks.quality.arms import ARMS, Arm
from benchmarks.quality.bench import Bench
from benchmarks.quality.case import Case
from benchmarks.quality.donors import donate, slots, store
from benchmarks.quality.measure import blocks_needed, measure, num_rows
from benchmarks.quality.passes import run_arm

EXACT = 1e-7  # nats: rounding in fp32 leaves a few 1e-8
EVERYTHING = {
    "first": Arm("first:99", leading="first:99"),
    **{
        f"{rule}/{granule}": Arm(f"{rule}:1", select=rule, share=1.0, granule=granule)
        for rule in ("attn", "vdev", "kdev")
        for granule in (1, 16)
    },
}


@pytest.fixture(scope="module", params=["llama", "gemma3_text", "deepseek_v3"])
def model(request: pytest.FixtureRequest) -> Bench:
    return bench(request.param)


def arm_of(made: Bench, case: Case, arm: Arm) -> dict[str, float]:
    found: dict[str, float] = measure(made, case, [arm])["arms"][arm.name]
    return found


@pytest.mark.parametrize("arm", EVERYTHING.values(), ids=EVERYTHING)
@pytest.mark.parametrize("case", [moved_case(), reordered_case()], ids=["moved", "reordered"])
def test_computing_everything_again_equals_the_full_recompute(
    model: Bench, case: Case, arm: Arm
) -> None:
    found = arm_of(model, case, arm)
    assert abs(found["kl"]) < EXACT
    assert found["top1"] == 1
    assert abs(found["delta_nll"]) < 1e-4


def test_text_in_its_own_place_needs_no_repair(model: Bench) -> None:
    front = tokens(5, 11)
    case = moved_case(fronts=(tokens(1, 9), tokens(2, 14), tokens(3, 7), front), target=front)
    for name in ("none", "unrotated", "recent/none", "similar@4/none"):
        assert abs(arm_of(model, case, ARMS[name])["kl"]) < EXACT, name


def test_moved_text_is_approximate_and_turning_its_keys_matters(model: Bench) -> None:
    none, unrotated = (arm_of(model, moved_case(), ARMS[name]) for name in ("none", "unrotated"))
    assert none["kl"] > 1e-5
    assert unrotated["kl"] != pytest.approx(none["kl"], rel=1e-3)


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
@pytest.mark.parametrize("donor", ["none", "consensus@4/none"])
def test_a_donors_first_layer_is_right_where_it_is_read(name: str, donor: str) -> None:
    """K of layer 0 depends on token and position alone, so the mean of copies has it too."""
    made, case = bench(name), moved_case()
    stored = store(made, case)
    (piece,) = donate(made, case, ARMS[donor], stored)
    blocks = made.take(TEXT_TOKENS)
    made.copy_moved(slots(piece.run, BLOCK_SIZE), blocks, piece.run.delta)
    whole = made.take(len(case.tokens))
    full = paged_run.full_logits(made.paged.model, case.tokens)
    positions = torch.arange(len(case.tokens)).numpy()
    table = made.entries(whole, 0, len(case.tokens))
    logits = made.compute(case.tokens, positions, table, len(case.tokens))
    torch.testing.assert_close(logits, full, rtol=1e-4, atol=1e-4)
    keys = made.paged.pools[0][:, 0, 0].transpose(1, 2)  # [num_blocks, block_size, heads, dim]
    at = range(piece.run.start, piece.run.stop)
    fresh = torch.stack([keys[whole[p // BLOCK_SIZE], p % BLOCK_SIZE] for p in at])
    turned = keys[list(blocks)].flatten(0, 1)[:TEXT_TOKENS]
    assert float((turned - fresh).norm() / fresh.norm()) < 1e-5


def test_the_mean_of_equal_copies_is_a_copy(model: Bench) -> None:
    case = moved_case(fronts=(tokens(2, 14),) * 4)
    one, mean = (arm_of(model, case, ARMS[name]) for name in ("recent/none", "consensus@4/none"))
    assert mean["kl"] == pytest.approx(one["kl"], rel=1e-3)


def test_left_out_is_the_models_own_forward_without_the_text(model: Bench) -> None:
    case = moved_case()
    full, without = (
        paged_run.full_logits(model.paged.model, tokens)[-case.num_scored :].log_softmax(-1)
        for tokens in (case.tokens, case.tokens_without)
    )
    expected = (full.exp() * (full - without)).sum(-1).mean()
    assert arm_of(model, case, ARMS["left-out"])["kl"] == pytest.approx(float(expected), rel=1e-3)


def test_costs() -> None:
    """30 tokens of text, blocks of 4, 4 layers, 6 rows of question."""
    made, case = bench(), moved_case()
    costs = {
        "none": 0,
        "unrotated": 0,
        "left-out": 0,
        "first:16": 16 / 30,
        "auto": 1,
        "attn:0.3": (9 + 6) / 30,
        "vdev:0.3": (9 * 4 + 30 * 1.1) / (30 * 4),
        "first:16+attn:0.1": (16 + 2 + 6) / 30,
    }
    row = measure(made, case, [ARMS[name] for name in costs])
    assert row["reused_tokens"] == 30
    found = {name: arm["cost"] for name, arm in row["arms"].items()}
    assert found == pytest.approx(costs, abs=1e-4)


def test_text_computed_at_position_0_has_its_first_block_computed_again() -> None:
    case = moved_case(fronts=(tokens(1, 9), tokens(2, 14), tokens(3, 7), ()))
    made = bench()
    assert arm_of(made, case, ARMS["none"])["cost"] == pytest.approx(4 / 30, abs=1e-4)
    assert arm_of(made, case, ARMS["consensus@4/none"])["cost"] == pytest.approx(4 / 30, abs=1e-4)


def test_donor_rules_choose_among_the_latest_contexts() -> None:
    target = tokens(5, 11)
    fronts = (target[:9], tokens(2, 14), tokens(3, 7), tokens(4, 5))
    made, case = bench(), moved_case(fronts, target)
    stored = store(made, case)
    kinds = {
        name: donate(made, case, ARMS[f"{name}/none"], stored)[0].kinds
        for name in ("recent", "similar@4", "consensus@2", "consensus@4")
    }
    assert kinds == {
        "recent": (KINDS[3],),
        "similar@4": (KINDS[0],),
        "consensus@2": KINDS[2:],
        "consensus@4": KINDS,
    }


def test_donors_blocks_are_never_written() -> None:
    made, case = bench(), moved_case()
    exact = made.take(len(case.tokens))
    positions = torch.arange(len(case.tokens)).numpy()
    made.compute(case.tokens, positions, made.entries(exact, 0, len(case.tokens)), 1)
    stored = store(made, case)
    ids = [*exact, *(block for donor in stored for block in donor.blocks)]
    before = made.paged.pools[0][ids].clone()
    for arm in ARMS.values():
        if arm.reuse:
            with made.scratch():
                runs = [piece.run for piece in donate(made, case, arm, stored)]
                run_arm(made, case, arm, runs, exact)
    assert torch.equal(made.paged.pools[0][ids], before) or bool(
        (made.paged.pools[0][ids] == before).logical_or(before.isnan()).all()
    )


def test_a_bench_of_the_stated_size_suffices_and_rows_are_estimated() -> None:
    for case in (moved_case(), reordered_case()):
        made = Bench(bench().paged, blocks_needed(case, BLOCK_SIZE), BLOCK_SIZE)
        measure(made, case, list(ARMS.values()))
    none = num_rows(moved_case(), [ARMS["none"]], BLOCK_SIZE)
    assert none == 52 + (9 + 14 + 7 + 5 + 4 * 30) + 6 + 5
