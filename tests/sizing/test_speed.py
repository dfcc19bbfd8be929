"""Reads, roofline, transfers, reservation and the variants of a model."""

from __future__ import annotations

import re

import pytest
from sizing.published import MODELS, spec

from kvtool.sizing.calculate import calculate
from kvtool.sizing.from_config import model_spec
from kvtool.sizing.from_flags import ModelFlags
from kvtool.sizing.from_flags import model_spec as from_flags
from kvtool.sizing.request import SizeRequest


@pytest.mark.parametrize(
    ("name", "intensity"),
    [("Llama-2-7b", 1.0), ("Llama-3.1-8B", 4.0), ("falcon-7b", 71.0), ("gemma-3-27b", 2.0)],
)
def test_intensity_is_the_number_of_heads_that_share_a_key(name: str, intensity: float) -> None:
    report = calculate(spec(name), SizeRequest())
    assert report.arithmetic_intensity == intensity
    assert report.bandwidth_bound is True


def test_absorbed_latents_are_read_once_for_all_heads() -> None:
    report = calculate(spec("DeepSeek-V3"), SizeRequest())
    assert report.arithmetic_intensity == pytest.approx(128 * 2 * (576 + 512) / 1152)
    assert report.bandwidth_bound is None  # below the ridge of an H100, above that of an A100
    a100 = SizeRequest(gpu="a100-80gb", weights=1)
    assert calculate(spec("DeepSeek-V3"), a100).bandwidth_bound is False


def test_transfer_times() -> None:
    links = {"50 GB/s": 50e9}
    llama = calculate(spec("Llama-3.1-70B"), SizeRequest(link_bandwidth=links))
    deepseek = calculate(spec("DeepSeek-V3"), SizeRequest(link_bandwidth=links))
    assert llama.transfer_ms["50 GB/s"] == pytest.approx(26.8, abs=0.05)
    assert deepseek.transfer_ms["50 GB/s"] == pytest.approx(5.8, abs=0.05)


def test_a_step_reads_windows_only() -> None:
    report = calculate(spec("gemma-3-1b"), SizeRequest(tokens=32768, batch=2))
    assert report.decode_read_bytes == 2 * 145752064


def test_contiguous_reservation_is_for_the_longest_length() -> None:
    model = model_spec({**MODELS[1]["config"], "max_position_embeddings": 131072})
    report = calculate(model, SizeRequest(tokens=1000, batch=4))
    assert report.reserved_bytes == 4 * 131072 * 131072
    report = calculate(model, SizeRequest(tokens=1000, batch=4, max_model_len=2048))
    assert report.reserved_bytes == 4 * 2048 * 131072


def test_variants_of_one_model() -> None:
    sizes = calculate(from_flags(ModelFlags(layers=32, kv_heads=8)), SizeRequest()).variants
    assert sizes["gqa"] * 4 == sizes["mha"] == 2**31
    assert sizes["mqa"] * 32 == sizes["mha"]
    assert sizes["mla"] == 4096 * 32 * 576 * 2
    deepseek = calculate(spec("DeepSeek-V3"), SizeRequest())
    assert deepseek.variants["mla"] == deepseek.bytes
    assert deepseek.variants["mha"] == 61 * 4096 * 2 * 128 * 128 * 2


REQUESTS = (
    SizeRequest(),
    SizeRequest(tokens=100, batch=16),
    SizeRequest(tokens=3000, batch=3, prefix_share=2900),
    SizeRequest(tokens=5000, kv_dtype="int4"),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=["one", "batch", "shared", "int4"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m["model"])
def test_the_printed_formula_gives_the_printed_bytes(
    model: dict[str, object], request_: SizeRequest
) -> None:
    report = calculate(model_spec(model["config"]), request_)  # type: ignore[arg-type]
    left, right = report.formula.split(" = ")
    arithmetic = re.sub(r"[^0-9.+*()]", "", left.replace("·", "*"))
    assert eval(arithmetic) == report.bytes  # digits, dots, + * ( ) only
    assert right == f"{report.bytes:,} B"
