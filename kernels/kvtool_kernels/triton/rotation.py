"""The unit rotation inside a kernel; the twin of `kvtool_kernels.rotary`."""

import triton
import triton.language as tl

TAU = tl.constexpr(6.283185307179586)  # radians a turn
TURNS = tl.constexpr(0.15915494309189535)  # turns a radian


@triton.jit
def rotation(
    delta, dims, inv_freq_ptr, START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr
):
    """What R(delta) needs for the values `dims` of a head: (partner, cos, sin), such that
    turned[d] = x[d] * cos[d] + x[partner[d]] * sin[d]; values that do not rotate are their own
    partner with cos 1 and sin 0. delta: a scalar; inv_freq: float64 [HALF].
    """
    place = dims - START
    rotated = (place >= 0) & (place < 2 * HALF)
    if INTERLEAVED:
        second = place % 2 == 1
        pair = place // 2
        partner = tl.where(second, dims - 1, dims + 1)
    else:
        second = place >= HALF
        pair = tl.where(second, place - HALF, place)
        partner = tl.where(second, dims - HALF, dims + HALF)
    inv_freq = tl.load(inv_freq_ptr + pair, mask=rotated, other=0.0)
    # whole turns drop out in float64; what is left, in [-pi, pi], is exact enough in fp32
    turns = delta.to(tl.float64) * inv_freq * TURNS
    angle = ((turns - tl.floor(turns + 0.5)) * TAU).to(tl.float32)
    sin = tl.sin(angle)
    return tl.where(rotated, partner, dims), tl.cos(angle), tl.where(second, sin, -sin)
