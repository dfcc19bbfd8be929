"""Does this model's attention depend on distance only? Measured, fact by fact.

    python examples/rope_verify.py [MODEL] [--dtype float32]

kvtool computes the keys of a text once and uses them wherever the text turns up again. That is
right if moving a key by d positions is a rotation by d. Here the loaded weights are asked, as
`kvtool inspect-cache --rope-check MODEL` does. Exits with 1 if a fact does not hold or the model's
keys cannot be moved.
"""

import argparse
import sys

from kvtool.cli.rope_view import rope_lines
from kvtool.models.hf import PagedModel
from kvtool.models.load import load_model
from kvtool.models.rope_facts import rope_facts


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Verify the facts rotary-corrected reuse rests on."
    )
    parser.add_argument("model", nargs="?", help="folder, GGUF file or hub name; default: the demo")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")
    arguments = parser.parse_args(argv)
    loaded = load_model(arguments.model, device="cpu", dtype=arguments.dtype)
    facts = rope_facts(PagedModel(loaded.model), loaded.tokenizer)
    print(loaded.name, *rope_lines(facts), sep="\n")
    return 0 if facts.holds else 1


if __name__ == "__main__":
    sys.exit(main())
