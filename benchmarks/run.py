"""Runs benchmark cases: `python benchmarks/run.py [CASE…] [--trace PATH]`. Each checks its result,
then times it.

Times of separate runs on a shared machine mean little, so a case runs its variants alternately in
one process and reports medians and their ratio. Rows go to benchmarks/results/<case>.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rows

CASES = {
    "prefix_ttft": "cases.prefix_ttft:run",
    "vs_transformers": "cases.vs_transformers:run",
    "contention": "cases.contention:run",
    "fragmentation": "cases.fragmentation:run",
    "startup": "cases.startup:run",
    "disk_ttft": "cases.disk_ttft:run",
    "moved_keys": "cases.moved_keys:run",
    "shift_ttft": "cases.shift_ttft:run",
    "donor_ttft": "cases.donor_ttft:run",
    "plan_cost": "cases.plan_cost:run",
    "reuse_schemes": "cases.reuse_schemes:run",
}
# Of a trace that --trace names; without it they are left out.
TRACE_CASES = {
    "lru_curve": "cases.lru_curve:run",
    "replay_speed": "cases.replay_speed:run",
    "peers": "cases.peers:run",
}
ALL_CASES = CASES | TRACE_CASES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"of {', '.join(ALL_CASES)}; default: all"
    )
    parser.add_argument("--trace", metavar="PATH", help=f"for {', '.join(TRACE_CASES)}")
    parser.add_argument("--dry", action="store_true", help="print rows, do not append them")
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - set(ALL_CASES)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; allowed: {', '.join(ALL_CASES)}")
    traced = sorted(TRACE_CASES.keys() & set(arguments.cases))
    if traced and not arguments.trace:
        parser.error(f"{', '.join(traced)} needs --trace PATH")
    for case in arguments.cases or (ALL_CASES if arguments.trace else CASES):
        module, function = ALL_CASES[case].split(":")
        given = [arguments.trace] if case in TRACE_CASES else []
        for row in getattr(import_module(module), function)(*given):
            print(case, row, flush=True)
            if not arguments.dry:
                rows.append(case, row)


if __name__ == "__main__":
    main()
