"""What moved KV costs in quality, by repair and by donor; against computing the prompt in full.

    python benchmarks/reuse_quality.py --prompts 2 --situations moved --arms none 'first:*' auto
    python benchmarks/reuse_quality.py                          everything: about two hours
    python benchmarks/reuse_quality.py --report                 what the rows say, and the plot

A case is one committed prompt in one situation (quality/situations.py); an arm is a donor and a
repair (quality/arms.py). The mean KL(full recompute || arm) is taken over the rows of a question
and of its true answer. Rows are written case by case, and a case that has its arms is skipped, so
a run that was stopped goes on with the same command. No engine is involved: tables are made by
hand, so that a figure says what moved KV is worth and nothing about scheduling.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch

from benchmarks import rows
from benchmarks.quality import results
from benchmarks.quality.arms import ARMS, Arm, choose_arms
from benchmarks.quality.bench import Bench
from benchmarks.quality.case import Case
from benchmarks.quality.frame import Frame
from benchmarks.quality.measure import blocks_needed, measure, num_rows
from benchmarks.quality.plot import write_plot
from benchmarks.quality.prompts import digest, load_prompts
from benchmarks.quality.situations import SITUATIONS, build
from benchmarks.quality.summary import EVERY_ARM, summaries, text
from kvtool.errors import KVToolError
from kvtool.models.hf import PagedModel
from kvtool.models.load import LoadedModel, load_model

WARM_UP_TOKENS = 256


class Todo(NamedTuple):
    case: Case
    arms: list[Arm]


def main() -> None:
    options = _parse()
    try:
        arms = choose_arms(options.arms)
        loaded = load_model(options.model, device="cpu", dtype=options.dtype, progress=_say)
    except KVToolError as error:
        sys.exit(f"{error}")
    setup = setup_of(loaded, options.dtype)
    if options.report:
        _report(setup, append=not options.dry)
    else:
        torch.set_num_threads(options.threads)
        _run(loaded, setup, _todo(loaded, setup, arms, options), options.dry)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder, .gguf file or hub id; default: the demo model")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--prompts", type=int, metavar="N", help="the first N; default: all")
    parser.add_argument("--situations", nargs="+", choices=SITUATIONS, default=list(SITUATIONS))
    parser.add_argument(
        "--arms",
        nargs="+",
        default=["*"],
        metavar="ARM",
        help=f"of {', '.join(ARMS)}; *, ? allowed",
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dry", action="store_true", help="print, do not append rows")
    parser.add_argument("--report", action="store_true", help="measure nothing: sum the rows up")
    return parser.parse_args()


def setup_of(loaded: LoadedModel, dtype: str) -> results.Setup:
    quantised = re.search(r"\.(\w+)\.gguf$", loaded.name)
    weights = f"{quantised[1]}, dequantised" if quantised else "as published"
    name = Path(loaded.name).name
    return results.Setup(name, f"{weights}; {loaded.weights_digest[:16]}", dtype, digest())


def _todo(
    loaded: LoadedModel, setup: results.Setup, arms: list[Arm], options: argparse.Namespace
) -> list[Todo]:
    """Prompt by prompt, so that a part of the run has every situation."""
    prompts, frame = load_prompts(), Frame(loaded.tokenizer)
    measured = results.load(setup)
    names = [arm.name for arm in arms]
    todo = []
    for index, prompt in list(enumerate(prompts))[: options.prompts]:
        for situation in options.situations:
            wanted = results.missing(measured, prompt.id, situation, names)
            if wanted:
                case = build(prompts, index, situation, frame)
                todo.append(Todo(case, [ARMS[name] for name in wanted]))
    return todo


def _run(loaded: LoadedModel, setup: results.Setup, todo: list[Todo], dry: bool) -> None:
    if not todo:
        return
    bench = _bench(loaded, todo)
    left = [num_rows(*each, bench.block_size) for each in todo]
    _say(f"{len(todo)} cases, about {sum(left) / _rows_per_second(bench) / 60:.0f} minutes")
    done, start = 0, time.monotonic()
    for rows_of_case, (case, arms) in zip(left, todo):
        row = measure(bench, case, arms)
        if dry:
            print(json.dumps(row), flush=True)
        else:
            results.save(setup, row)
        done += rows_of_case
        minutes = (time.monotonic() - start) / 60 * (sum(left) - done) / done
        kls = " ".join(f"{name} {arm['kl']:.4f}" for name, arm in list(row["arms"].items())[:6])
        _say(f"{case.prompt} {case.situation}: {kls}; {minutes:.0f} minutes left")


def _bench(loaded: LoadedModel, todo: list[Todo]) -> Bench:
    paged = PagedModel(loaded.model)
    return Bench(paged, max(blocks_needed(each.case, 16) for each in todo))


def _rows_per_second(bench: Bench) -> float:
    with bench.scratch():
        tokens = [1] * WARM_UP_TOKENS
        table = bench.entries(bench.take(WARM_UP_TOKENS), 0, WARM_UP_TOKENS)
        for _ in range(2):
            start = time.monotonic()
            bench.compute(tokens, np.arange(WARM_UP_TOKENS), table, 64)
    return WARM_UP_TOKENS / (time.monotonic() - start)


def _report(setup: results.Setup, append: bool) -> None:
    measured = results.load(setup)
    if not measured:
        sys.exit(f"No rows of {setup.model}, {setup.dtype}.")
    found = summaries(measured)
    for summary in found:
        print(text(summary), flush=True)
        if append:
            rows.append("reuse_quality", {**setup._asdict(), **summary})
    if append:
        (every_arm,) = (s for s in found if s["situation"] == EVERY_ARM)
        path = rows.RESULTS / f"reuse_quality_{Path(setup.model).stem}.svg"
        title = f"{setup.model}, {setup.dtype}: mean KL to full recompute against cost"
        write_plot(path, title, every_arm["arms"])
        _say(f"{path}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
