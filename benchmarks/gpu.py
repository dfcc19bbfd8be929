"""Checks every Triton kernel on the GPU, then times it: `python benchmarks/gpu.py` (under 5 min).

Each kernel is compared with its PyTorch reference on the device before anything is timed.
Attention is quoted against what the device can do (copy bandwidth, bf16 matmul), moved keys
against unmoved ones; both sides of a ratio run alternately. `--generate` also generates with the
demo model in float32 on the GPU and on the CPU and compares the tokens.
Rows go to benchmarks/results/gpu.jsonl. Exit codes: 0 done, 1 a check failed, 2 no CUDA device.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
sys.path.insert(0, str(Path(__file__).parent))

import rows
import torch
from gpu_checks import BLOCK_SIZE, Failed, check_attention, check_cache_ops, make_attention, rotary

from kvtool_kernels.dispatch import load

ROUNDS = 20
Row = dict[str, Any]


def time_ms(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median milliseconds on the device, the runs taken alternately; L2 is flushed before each."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for measured in [False] * 3 + [True] * ROUNDS:
        for name, run in runs.items():
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            if measured:
                times[name].append(start.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def attend(case: tuple[tuple[torch.Tensor, ...], dict[str, Any]]) -> Callable[[], None]:
    arguments, keywords = case
    return lambda: load("paged_attention", "triton")(*arguments, **keywords)


def show(row: Row) -> Row:
    figures = "  ".join(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, (int, float)))
    print(f"{'time':8}{row['time']:40}{figures}", flush=True)
    return row


def time_decode(device: str, num_seqs: int, num_tokens: int) -> Iterator[Row]:
    source = torch.empty(1 << 30, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    mla = {"num_heads": 128, "num_kv_heads": 1, "head_dim": 576, "latent_dim": 512}
    shapes = {"GQA 32/8, head_dim 128": {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128}}
    for name, shape in (shapes | {"MLA 128 heads": mla}).items():
        case = make_attention(
            [(num_tokens, 1)] * num_seqs, dtype=torch.bfloat16, device=device, **shape
        )
        times = time_ms({"attention": attend(case), "copy": lambda: target.copy_(source)})
        attention_rate = case[0][1].nbytes / times["attention"] / 1e6
        copy_rate = 2 * source.nbytes / times["copy"] / 1e6
        yield show(
            {
                "time": f"decode {num_seqs} x {num_tokens}, {name}",
                "ms": times["attention"],
                "gb_per_s": attention_rate,
                "copy_gb_per_s": copy_rate,
                "share_of_copy": attention_rate / copy_rate,
            }
        )


def time_prefill(device: str, num_tokens: int) -> Iterator[Row]:
    matrix = torch.randn(8192, 8192, device=device).bfloat16()
    shape = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128}
    case = make_attention([(num_tokens, num_tokens)], dtype=torch.bfloat16, device=device, **shape)
    times = time_ms({"attention": attend(case), "matmul": lambda: matrix @ matrix})
    attention_rate = 2 * num_tokens**2 * 32 * 128 / times["attention"] / 1e9  # causal half
    matmul_rate = 2 * 8192**3 / times["matmul"] / 1e9
    yield show(
        {
            "time": f"prefill {num_tokens}, GQA 32/8, head_dim 128",
            "ms": times["attention"],
            "tflop_per_s": attention_rate,
            "matmul_tflop_per_s": matmul_rate,
            "share_of_matmul": attention_rate / matmul_rate,
        }
    )


def time_deltas(device: str, num_seqs: int, num_tokens: int) -> Iterator[Row]:
    """Moved keys cost what the turned query costs: against delta 0, and against no rope at all."""
    shape = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "dtype": torch.bfloat16}
    stages = {
        "decode": [(num_tokens, 1)] * num_seqs,
        "prefill": [(num_tokens, num_tokens // 2)] * 2,
    }
    for stage, sequences in stages.items():
        unmoved = make_attention(sequences, device=device, turn=True, **shape)
        entries = unmoved[0][5].clone()
        entries[:, 4] = 1000
        moved = (*unmoved[0][:5], entries, unmoved[0][6]), unmoved[1]
        runs_of_8 = entries.clone()
        runs_of_8[:, 4] = torch.arange(len(entries), device=device) // 8 * 3
        several = (*unmoved[0][:5], runs_of_8, unmoved[0][6]), unmoved[1]
        plain = unmoved[0], unmoved[1] | {"rope": None}
        variants = {"plain": plain, "unmoved": unmoved, "moved": moved, "several": several}
        times = time_ms({name: attend(case) for name, case in variants.items()})
        ratios = {f"{name}_ratio": times[name] / times["unmoved"] for name in variants}
        yield show({"time": f"deltas, {stage}", "unmoved_ms": times["unmoved"], **ratios})


def time_cache_ops(device: str, num_tokens: int) -> Iterator[Row]:
    num_blocks = 2 * num_tokens // BLOCK_SIZE
    pool = torch.zeros(num_blocks, 4, 2, 8, BLOCK_SIZE, 128, device=device).bfloat16()
    key = torch.randn(num_tokens, 8, 128, device=device).bfloat16()
    slots = torch.randperm(num_tokens, device=device)
    deltas = torch.full((num_tokens,), 1000, dtype=torch.int32, device=device)
    half = num_blocks // 2
    source = torch.randperm(half)
    copies = torch.stack((source, source + half, torch.full((half,), BLOCK_SIZE)), 1)
    copies, rope, layer = copies.int().to(device), rotary(128, device), pool[:, 1]
    operations = {
        "store_kv": (key, key, layer, slots),
        "rope_shift": (layer, slots, slots + num_tokens, deltas, rope),
        "copy_blocks": (pool, copies),
    }
    runs = {n: (lambda n=n, a=a: load(n, "triton")(*a)) for n, a in operations.items()}
    moved_bytes = dict.fromkeys(operations, 4 * key.nbytes) | {"copy_blocks": pool.nbytes}
    for name, ms in time_ms(runs).items():
        yield show({"time": name, "ms": ms, "gb_per_s": moved_bytes[name] / ms / 1e6})


def generate_on_both() -> Row:
    """The demo model, greedy, float32: the GPU's tokens are the CPU reference's."""
    outputs = {device: generate(device) for device in ("cuda", "cpu")}
    if outputs["cuda"] != outputs["cpu"]:
        raise Failed(f"generation differs: cuda {outputs['cuda']}, cpu {outputs['cpu']}")
    print(f"{'check':8}generate: {len(outputs['cuda'])} tokens equal on cuda and cpu", flush=True)
    return {"check": "generate", "num_tokens": len(outputs["cuda"])}


def generate(device: str) -> list[int]:
    from kvtool.config import EngineConfig
    from kvtool.engine.request import Request
    from kvtool.engine.sampling import SamplingParams
    from kvtool.runtime import Runtime

    config = EngineConfig(device=device, dtype="float32", max_model_len=512, no_cache_dir=True)
    runtime = Runtime.open(config)
    prompt = runtime.tokenizer.encode("The three primary colours are")
    sampling = SamplingParams(max_tokens=24, stop_ids=runtime.eos_ids)
    request = Request(prompt, sampling, namespace=runtime.namespace(None))
    runtime.engine.add(request)
    while runtime.engine.has_work:
        runtime.engine.step()
    runtime.close()
    return request.output_ids


def measure(with_generation: bool) -> Iterator[Row]:
    yield from check_attention("cuda")
    yield from check_cache_ops("cuda")
    if with_generation:
        yield generate_on_both()
    yield from time_decode("cuda", num_seqs=64, num_tokens=4096)
    yield from time_prefill("cuda", num_tokens=8192)
    yield from time_deltas("cuda", num_seqs=64, num_tokens=4096)
    yield from time_cache_ops("cuda", num_tokens=65536)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generate", action="store_true", help="also generate on GPU and CPU")
    parser.add_argument("--dry", action="store_true", help="print rows, do not append them")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("No CUDA device: these kernels run on a GPU only. On a CPU, run", file=sys.stderr)
        print("  pytest tests/kernels   (Triton's interpreter)", file=sys.stderr)
        return 2
    import triton

    torch.manual_seed(0)
    rows.machine()  # fails now rather than after the first row
    versions = {"triton": triton.__version__, "cuda": torch.version.cuda}
    try:
        for row in measure(arguments.generate):
            if not arguments.dry:
                rows.append("gpu", row | versions)
    except Failed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
