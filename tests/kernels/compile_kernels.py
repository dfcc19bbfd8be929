"""Compile every Triton kernel for GPUs that need not be here, as its launcher would launch it.

Run as a program, without TRITON_INTERPRET: `compile_kernels.py 80 90` for sm_80 and sm_90. The
launchers get CPU tensors and kernels that only record their arguments; what they recorded is
compiled, each source once. Prints one JSON object a kernel and GPU: registers a thread, and bytes
of shared, local and spilled memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvtool_kernels import Rotary, RotaryTable
from kvtool_kernels.triton import copy_blocks, paged_attention, rope_shift, store_kv

OPTIONS = ("num_warps", "num_stages")
POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


class Launch(NamedTuple):
    case: str
    kernel: Any
    arguments: dict[str, Any]
    options: dict[str, int]


class Recorder:
    """Stands in for a kernel: `recorder[grid](*args, **kwargs)` notes the launch."""

    def __init__(self, kernel: Any, case: str, launches: list[Launch]) -> None:
        self.kernel, self.case, self.launches = kernel, case, launches

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
            arguments = dict(zip(self.kernel.arg_names, args)) | kwargs
            ordered = {name: arguments[name] for name in self.kernel.arg_names}
            self.launches.append(Launch(self.case, self.kernel, ordered, options))

        return launch


def record(case: str, op: Any, *args: Any, **kwargs: Any) -> list[Launch]:
    """Every kernel that `op.<op>(*args, **kwargs)` launches."""
    launches: list[Launch] = []
    kernels = {name: value for name, value in vars(op).items() if name.endswith("_kernel")}
    for name, kernel in kernels.items():
        setattr(op, name, Recorder(kernel, case, launches))
    getattr(op, op.__name__.rsplit(".", 1)[1])(*args, **kwargs)
    for name, kernel in kernels.items():
        setattr(op, name, kernel)
    return launches


def specialise(launch: Launch) -> ASTSource:
    """What the launch would be compiled from: constants, and divisibility by 16."""
    constexpr_names = {p.name for p in launch.kernel.params if p.is_constexpr}
    signature, constants, attributes = {}, {}, {}
    for i, (name, value) in enumerate(launch.arguments.items()):
        if name == "UPCAST":
            value = False  # the launcher saw CPU tensors
        if name in constexpr_names or value is None or (type(value) is int and value == 1):
            signature[name], constants[name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[name], attributes[(i,)] = POINTERS[value.dtype], [["tt.divisibility", 16]]
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32"
            if value % 16 == 0:
                attributes[(i,)] = [["tt.divisibility", 16]]
    return ASTSource(launch.kernel, signature, constants, attributes)


def measure(launch: Launch, source: ASTSource, capability: int) -> dict[str, Any]:
    log = io.StringIO()  # of ptxas -v
    with contextlib.redirect_stdout(log):
        compiled = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options=launch.options
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        usage = subprocess.run(
            [CUOBJDUMP, "-res-usage", cubin.name], capture_output=True, text=True, check=True
        )
    found = re.search(r"REG:(\d+) STACK:\d+ SHARED:\d+ LOCAL:(\d+)", usage.stdout + usage.stderr)
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log.getvalue())
    assert found and spilled, (usage, log.getvalue())
    return {
        "kernel": launch.kernel.__name__,
        "case": launch.case,
        "capability": capability,
        "registers": int(found[1]),
        "shared": compiled.metadata.shared,
        "local": int(found[2]),
        "spilled": int(spilled[1]) + int(spilled[2]),
    }


def rotary(rotary_dim: int, start: int = 0) -> Rotary:
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
    return Rotary(10000.0**-exponents, False, start)


def rotations(rope: Rotary) -> list[tuple[str, dict[str, Any]]]:
    """How a launch may turn: the query by delta, both at read, not at all."""
    at_read = {"at_read": RotaryTable.of(rope, 8)}
    return [(" turn", {"rope": rope}), (" at read", at_read), ("", {})]


def attention_launches(case: str, rows: int, cache: torch.Tensor, heads: int, **kwargs: Any) -> Any:
    head_dim = cache.shape[-1]
    query = torch.empty(2 * rows, heads, head_dim, dtype=cache.dtype)
    out = torch.empty(2 * rows, heads, kwargs.get("latent_dim", head_dim), dtype=cache.dtype)
    return record(
        case, paged_attention, query, cache, out,
        torch.tensor([0, rows, 2 * rows], dtype=torch.int32),
        torch.zeros(2 * rows, dtype=torch.int32),
        torch.zeros(2, 5, dtype=torch.int32),
        torch.tensor([0, 1, 2], dtype=torch.int32),
        scale=0.1, max_query_len=rows, **kwargs,
    )  # fmt: skip


def launches() -> Iterator[Launch]:
    slots = torch.zeros(16, dtype=torch.int64)
    deltas = torch.zeros(16, dtype=torch.int32)
    copies = torch.zeros(16, 3, dtype=torch.int32)
    for head_dim in (64, 128):
        pool = torch.empty(2, 2, 2, 8, 16, head_dim, dtype=torch.bfloat16)
        keys = torch.empty(16, 8, head_dim, dtype=torch.bfloat16)
        case = f"head_dim {head_dim}"
        yield from record(case, store_kv, keys, keys, pool[:, 0], slots)
        yield from record(case, rope_shift, pool[:, 0], slots, slots, deltas, rotary(head_dim))
        yield from record(case, copy_blocks, pool, copies)
        steps = (("prefill", 64), ("decode", 1))  # decode's tiles at 64 are those of 128
        for turn, rotation in rotations(rotary(head_dim))[: 1 + head_dim // 64]:
            for name, rows in steps[: head_dim // 64]:
                case = f"{name} head_dim {head_dim}{turn}"
                yield from attention_launches(case, rows, pool[:, 0], 32, **rotation)
    single = torch.empty(2, 2, 2, 1, 1, 80, dtype=torch.bfloat16)  # 1 is a constant to Triton
    options: dict[str, Any] = {"window": 100, "chunk": 64, "softcap": 30.0, "sinks": torch.ones(1)}
    for rows in (64, 1):
        yield from attention_launches(f"{rows} rows, options", rows, single[:, 0], 1, **options)
    pool = torch.empty(2, 2, 16, 576, dtype=torch.bfloat16)
    rope = rotary(64, start=512)
    yield from record("latent 576", store_kv, pool[:, 0, 0], None, pool[:, 0], slots[:2])
    yield from record("latent 576", rope_shift, pool[:, 0], slots, slots, deltas, rope)
    for name, num_rows in (("prefill", 64), ("decode", 1)):
        for turn, rotation in rotations(rope)[:2]:
            case = f"{name} latent 576{turn}"
            yield from attention_launches(
                case, num_rows, pool[:, 0], 128, latent_dim=512, **rotation
            )


def distinct(launches: Iterator[Launch]) -> list[tuple[Launch, ASTSource]]:
    """With their sources; the first launch of each source and options."""
    found: dict[str, tuple[Launch, ASTSource]] = {}
    for launch in launches:
        source = specialise(launch)
        found.setdefault(f"{source.hash()} {launch.options}", (launch, source))
    return list(found.values())


def main(capabilities: list[int]) -> None:
    assert not triton.knobs.runtime.interpret, "unset TRITON_INTERPRET"
    triton.knobs.nvidia.dump_ptxas_log = True
    paged_attention.num_splits = lambda device, programs: 8  # so that decode splits and reduces
    triton.knobs.compilation.always_compile = True  # a cached kernel brings no log
    for launch, source in distinct(launches()):
        for capability in capabilities:
            print(json.dumps(measure(launch, source, capability)), flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
