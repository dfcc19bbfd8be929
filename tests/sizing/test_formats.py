"""KV number formats: bytes of a row with scales, the 16-bit residual, the MLA-only format."""

from __future__ import annotations

import pytest

from kvtool.errors import ConfigError
from kvtool.sizing.calculate import calculate
from kvtool.sizing.formats import kv_format
from kvtool.sizing.from_flags import ModelFlags, model_spec
from kvtool.sizing.layers import FULL, LATENT, LayerCache
from kvtool.sizing.request import SizeRequest

HEADS = LayerCache(kind=FULL, num_heads=32, num_kv_heads=8, k_dim=128, v_dim=128)
ROW = LayerCache(kind=LATENT, num_heads=128, num_kv_heads=1, k_dim=576, latent_dim=512)


@pytest.mark.parametrize(
    ("name", "payload", "scales"),
    [
        ("fp32", 8192, 0),
        ("bf16", 4096, 0),
        ("half", 4096, 0),
        ("fp8_e4m3", 2048, 0),
        ("int8", 2048, 2 * 8 * 4),
        ("fp8_per_token_head", 2048, 2 * 8 * 4),
        ("nvfp4", 2 * 8 * 64, 2 * 8 * 8),
        ("q8_0", 2048, 2 * 8 * 4 * 2),  # 34 bytes for 32 values
        ("q4_0", 1024, 2 * 8 * 4 * 2),  # 18 bytes for 32 values
        ("int4", 1024, 2 * 8 * 2 * 4),  # 4.5 bits a value at group 64
    ],
)
def test_bytes_of_a_token(name: str, payload: int, scales: int) -> None:
    fmt = kv_format(name)
    assert (fmt.payload(HEADS), fmt.scales(HEADS)) == (payload, scales)


def test_latent_rows() -> None:
    assert kv_format("bf16").stored(ROW) == 1152
    assert kv_format("fp8").stored(ROW) == 576
    assert kv_format("fp8_ds_mla").stored(ROW) == 656


def test_formula_bytes_leave_scales_and_residual_to_the_allocation() -> None:
    model = model_spec(ModelFlags(layers=2, heads=8, kv_heads=8, head_dim=128))
    report = calculate(model, SizeRequest(tokens=1000, kv_dtype="int4"))
    values = 2 * 2 * 8 * 128
    assert report.bytes == 1000 * values // 2
    quantised = -(-(1000 - 128) // 16) * 16
    assert report.allocated_bytes == quantised * values * 9 // 16 + 128 * values * 2
    short = calculate(model, SizeRequest(tokens=100, kv_dtype="int4"))
    assert short.allocated_bytes == 100 * values * 2


def test_half_the_width_is_half_the_bytes() -> None:
    model = model_spec(ModelFlags(layers=32))
    sizes = [
        calculate(model, SizeRequest(kv_dtype=n)).bytes for n in ("fp32", "bf16", "fp8", "int4")
    ]
    assert sizes == [2**32, 2**31, 2**30, 2**29]


def test_unknown_format_lists_what_is_allowed() -> None:
    with pytest.raises(
        ConfigError, match=r"Unknown KV dtype 'fp9'; allowed: float32, .*q4_0.*bf16"
    ):
        kv_format("fp9")


def test_the_mla_format_is_refused_for_per_head_keys() -> None:
    with pytest.raises(ConfigError, match="fp8_ds_mla stores MLA latents"):
        calculate(model_spec(ModelFlags(layers=2)), SizeRequest(kv_dtype="fp8_ds_mla"))
