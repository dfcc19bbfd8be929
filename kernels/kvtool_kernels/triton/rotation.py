"""The unit rotation inside a kernel; the twin of `kvtool_kernels.rotary`."""

import triton
import triton.language as tl

TAU = tl.constexpr(6.283185307179586)  # radians a turn
TURNS = tl.constexpr(0.15915494309189535)  # turns a radian


@triton.jit
def pairing(dims, START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr):
    """Of the values `dims` of a head: (rotated, second of its pair, pair, partner)."""
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
    return rotated, second, pair, tl.where(rotated, partner, dims)


@triton.jit
def rotation(
    delta, dims, inv_freq_ptr, START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr
):
    """What R(delta) needs for the values `dims` of a head: (partner, cos, sin), such that
    turned[d] = x[d] * cos[d] + x[partner[d]] * sin[d]; values that do not rotate are their own
    partner with cos 1 and sin 0. delta: a scalar; inv_freq: float64 [HALF].
    """
    rotated, second, pair, partner = pairing(dims, START, HALF, INTERLEAVED)
    inv_freq = tl.load(inv_freq_ptr + pair, mask=rotated, other=0.0)
    # whole turns drop out in float64; what is left, in [-pi, pi], is exact enough in fp32
    turns = delta.to(tl.float64) * inv_freq * TURNS
    angle = ((turns - tl.floor(turns + 0.5)) * TAU).to(tl.float32)
    sin = tl.sin(angle)
    return partner, tl.cos(angle), tl.where(second, sin, -sin)


@triton.jit
def load_turned(
    row_ptrs, row_mask, dims, dim_end, positions, cos_ptr, sin_ptr,
    START: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """R(position) x of each row [M, dims] in fp32 by the table [num_positions, HALF], then rounded
    to DTYPE for the dot. Rows outside row_mask are 0 and nothing of them is read."""
    rotated, second, pair, partner = pairing(dims, START, HALF, INTERLEAVED)
    mask = row_mask[:, None] & (dims < dim_end)[None, :]
    turns = mask & rotated[None, :]
    angles = positions.to(tl.int64)[:, None] * HALF + pair[None, :]
    cos = tl.load(cos_ptr + angles, mask=turns, other=1.0)
    sin = tl.load(sin_ptr + angles, mask=turns, other=0.0)
    values = tl.load(row_ptrs[:, None] + dims[None, :], mask=mask, other=0.0)
    paired = tl.load(row_ptrs[:, None] + partner[None, :], mask=mask, other=0.0)
    signed = tl.where(second[None, :], sin, -sin)
    return (values.to(tl.float32) * cos + paired.to(tl.float32) * signed).to(DTYPE)
