"""Processes that store and load KV are killed at random moments; nothing wrong may come of it.

    python benchmarks/soak/kill.py --moments 200

Four processes share one cache folder. Each stores runs of a few dozen sequences with common
prefixes and loads what is there; the bytes of a block follow from its key, so every load can be
judged. One of the four is killed (SIGKILL) a moment after it began, and started again, over and
over; half of the kills with room for all, half under a cap that keeps evicting. Afterwards: the
folder is clean, every load gives the right bytes, and (with room) every run whose `put` had returned is
there.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk.array_views import ArrayViews
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.disk import DiskTier
from kvtool.tiers.tier import Missing

NUM_WORKERS = 4
BLOCK_SIZE = 16
GROUPS = (
    GroupSpec(layers=(0, 1, 2), kind="kv", num_kv_heads=2, head_dim=32, dtype="bfloat16"),
    GroupSpec(layers=(3,), kind="latent", num_kv_heads=1, head_dim=48, dtype="float32"),
)
NAMESPACE = b"soak".ljust(32, b"\0")
NUM_SEQUENCES = 40
ROOMY, TIGHT = 1 << 30, 1 << 21  # bytes


def sequence(number: int) -> np.ndarray:
    """Tokens: a prefix that every fourth sequence shares, then its own, of odd lengths."""
    shared = np.random.default_rng(number % 4).integers(0, 1000, 10 * BLOCK_SIZE)
    own = np.random.default_rng(100 + number).integers(0, 1000, 7 * number + 3)
    return np.append(shared, own).astype(np.int32)


def bytes_of(keys: tuple[bytes, ...], used: int = BLOCK_SIZE) -> list[np.ndarray]:
    """What these blocks hold, per group [num_blocks, num_layers, layer_bytes]; in the last only
    `used` slots."""
    arrays = []
    for index, group in enumerate(GROUPS):
        shape = len(group.layers), group.block_bytes(BLOCK_SIZE) // len(group.layers)
        blocks = [
            np.random.default_rng([*key, index]).integers(0, 256, shape, dtype=np.uint8)
            for key in keys
        ]
        array = np.stack(blocks)
        array[..., 3::4] = array[..., 1::4] = 0x3F  # finite in both dtypes
        planes = 1 if group.kind == "latent" else 2 * group.num_kv_heads
        array[-1].reshape(len(group.layers), planes, BLOCK_SIZE, -1)[:, :, used:] = 0
        arrays.append(array)
    return arrays


def load(tier: DiskTier, keys: BlockKeys) -> int:
    """Blocks that were there; ends the process where their bytes are wrong."""
    num_full = keys.num_full_blocks
    tokens = keys.tokens[: num_full * BLOCK_SIZE].reshape(-1, BLOCK_SIZE)
    places = tier.contains(keys.span(0, num_full), tokens)
    blocks = [StoredBlock(keys.key(i), BLOCK_SIZE, "disk", at) for i, at in enumerate(places)]
    used = len(keys.tokens) - num_full * BLOCK_SIZE
    if len(blocks) == num_full and used:
        part = tier.extend(keys.parent(num_full), keys.tokens[-used:])
        if part is not None and part.num_tokens == used and part.key == keys.key(num_full):
            blocks.append(StoredBlock(part.key, used, "disk", part.place))
    if not blocks:
        return 0
    wanted = bytes_of(tuple(block.key for block in blocks), blocks[-1].num_tokens)
    got = [np.empty_like(array) for array in wanted]
    try:
        tier.get(blocks, ArrayViews(GROUPS, BLOCK_SIZE, got), lambda layer: None)
    except Missing as reason:
        if "checksum" in str(reason):
            sys.exit(f"half a file was published: {reason}")
        return 0
    if not all(map(np.array_equal, got, wanted)):
        sys.exit("wrong bytes")
    return len(blocks)


def work(folder: Path, cap_bytes: int, log: Path, seed: int) -> None:
    """Store and load until killed. log: a line for every `put` that returned."""
    tier = DiskTier(folder, GROUPS, BLOCK_SIZE, cap_bytes=cap_bytes)
    record = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    rng = random.Random(seed)
    while True:
        number = rng.randrange(NUM_SEQUENCES)
        keys = BlockKeys(NAMESPACE, sequence(number), BLOCK_SIZE)
        start = load(tier, keys) if rng.random() < 0.7 else 0
        start = min(start, len(keys) - 1)
        stop = rng.randint(start + 1, len(keys))
        names = tuple(keys.span(start, stop))
        tokens = keys.tokens[start * BLOCK_SIZE : stop * BLOCK_SIZE]
        run = Run(NAMESPACE, keys.parent(start), names, tokens, start * BLOCK_SIZE)
        stored = tier.put(run, ArrayViews(GROUPS, BLOCK_SIZE, bytes_of(names)))
        if stored.reason is None:
            os.write(record, f"{number} {start} {stop}\n".encode())


class Workers:
    """The processes. They are forked, so that they are at work at once."""

    def __init__(self, folder: Path, cap_bytes: int, log: Path, rng: random.Random) -> None:
        self._arguments = folder, cap_bytes, log
        self._rng = rng
        self._processes = [self._start() for _ in range(NUM_WORKERS)]

    def _start(self) -> BaseProcess:
        arguments = *self._arguments, self._rng.randrange(1 << 30)
        process = get_context("fork").Process(target=work, args=arguments)
        process.start()
        return process

    def kill_one(self) -> None:
        """At a random moment; another takes its place."""
        time.sleep(self._rng.uniform(0, 0.3))
        victim = self._rng.randrange(NUM_WORKERS)
        self._end(self._processes[victim])
        self._processes[victim] = self._start()

    def end(self) -> None:
        for process in self._processes:
            self._end(process)

    def _end(self, process: BaseProcess) -> None:
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            sys.exit(f"a worker ended by itself ({process.exitcode})")


def torture(folder: Path, cap_bytes: int, moments: int, rng: random.Random) -> dict[str, int]:
    """Kill so often, then look; ends the process where something is wrong."""
    log = folder.with_suffix(".log")
    workers = Workers(folder, cap_bytes, log, rng)
    for _ in range(moments):
        workers.kill_one()
    workers.end()
    with (
        closing(DiskTier(folder, GROUPS, BLOCK_SIZE, cap_bytes=cap_bytes)) as tier,  # sweeps
        closing(Catalog.open(folder)) as catalog,
    ):
        tier.check_integrity()
        if damages := catalog.check():
            sys.exit(f"not clean: {damages}")
        finished = {tuple(map(int, line.split())) for line in log.read_text().splitlines()}
        lost = [run for run in finished if not is_there(catalog, *run)]
        if lost and cap_bytes == ROOMY:
            sys.exit(f"lost: {lost}")
        for number in range(NUM_SEQUENCES):
            load(tier, BlockKeys(NAMESPACE, sequence(number), BLOCK_SIZE))
        totals = catalog.totals()
    if totals.bytes > cap_bytes:
        sys.exit(f"{totals.bytes} bytes under a cap of {cap_bytes}")
    return {"kills": moments, "finished_runs": len(finished), "stored_blocks": totals.blocks}


def is_there(catalog: Catalog, number: int, start: int, stop: int) -> bool:
    keys = BlockKeys(NAMESPACE, sequence(number), BLOCK_SIZE)
    return all(catalog.block(key) is not None for key in keys.span(start, stop))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="append the row to the results")
    options = parser.parse_args()
    start, rng, row = time.monotonic(), random.Random(options.seed), {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, cap_bytes in (("roomy", ROOMY), ("tight", TIGHT)):
            moments = (options.moments + (name == "roomy")) // 2
            row[name] = torture(Path(scratch) / name, cap_bytes, moments, rng)
    row = {"seed": options.seed, **row, "seconds": round(time.monotonic() - start)}
    if options.record:
        import rows

        rows.append("soak_kill", row)
    print(f"no damage, no loss, no wrong byte: {row}")


if __name__ == "__main__":
    main()
