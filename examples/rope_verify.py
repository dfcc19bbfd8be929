"""Does this model's attention depend on distance only? Measured, fact by fact.

    python examples/rope_verify.py [MODEL] [--dtype float32]

kvtool computes the keys of a text once and uses them wherever the text turns up again. That is
right if moving a key by d positions is a rotation by d. Here the loaded weights are asked. Exits
with 1 if a fact does not hold or the model's keys cannot be moved.
"""

import argparse
import sys
from textwrap import fill

from kvtool.models.hf import PagedModel
from kvtool.models.load import load_model
from kvtool.models.rope_fact import Fact
from kvtool.models.rope_facts import RopeFacts, rope_facts
from kvtool.models.rope_pairs import LayerPairs


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Verify the facts rotary-corrected reuse rests on."
    )
    parser.add_argument("model", nargs="?", help="folder, GGUF file or hub name; default: the demo")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")
    arguments = parser.parse_args(argv)
    loaded = load_model(arguments.model, device="cpu", dtype=arguments.dtype)
    facts = rope_facts(PagedModel(loaded.model), loaded.tokenizer)
    print(f"{loaded.name}: {facts.architecture}, {facts.dtype}, context {facts.context} tokens")
    tell(facts)
    return 0 if facts.holds else 1


def tell(facts: RopeFacts) -> None:
    if facts.reason is not None:
        print(f"\nIts keys cannot be moved: {facts.reason}.")
        return
    for pairs in facts.pairs:
        print(f"\n{describe(pairs, facts.context)}")
    if facts.delta_multiple > 1:
        print(f"\nKeys may move by multiples of {facts.delta_multiple} tokens only.")
    for number, fact in enumerate(facts.facts, start=1):
        print("\n" + fill(f"{number}. {fact.statement}", width=96, subsequent_indent="   "))
        show(fact)
    print("\nEvery fact holds." if facts.holds else "\nNOT every fact holds.")


def describe(pairs: LayerPairs, context: int) -> str:
    layers = ranges(pairs.layers)
    if pairs.values is None:
        return f"Layers {layers}: no rotation (NoPE); a key is the same at every position."
    start, end = pairs.values
    lines = [
        f"Layers {layers}: {pairs.part}, values {start}…{end - 1} of {pairs.head_dim}, "
        f"{pairs.pairing} pairs, turning {pairs.direction}.",
        f"  {len(pairs.frequencies)} pairs; {pairs.unfinished} never complete a turn within "
        f"{context} tokens. Fast to slow, tokens a turn:",
    ]
    turns = ["∞" if length is None else f"{length:.4g}" for length in pairs.wavelengths]
    rows = (turns[first : first + 8] for first in range(0, len(turns), 8))
    return "\n".join([*lines, *("  " + "".join(f"{turn:>11}" for turn in row) for row in rows)])


def ranges(numbers: tuple[int, ...]) -> str:
    """(0, 1, 2, 5) -> 0-2, 5"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def show(fact: Fact) -> None:
    for measured in fact.measured:
        verdict, limit = "     ", ""
        if measured.tolerance is not None:
            verdict = "ok   " if measured.holds else "FAILS"
            limit = f"  (at most {measured.tolerance:.1e})" if measured.tolerance else "  (none)"
        print(f"   {verdict} {measured.what + ':':78} {measured.value:8.2g}{limit}")


if __name__ == "__main__":
    sys.exit(main())
