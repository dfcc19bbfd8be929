"""The prose about `inspect-cache` in docs/cli.md."""

from __future__ import annotations

from kvtool.cli.inspect_tree import SHOWN_BRANCHES, SHOWN_NODES
from kvtool.inspection.prompt_span import REASONS

_INSPECT_CACHE = """\
## What `inspect-cache` tells

It looks at one cache folder and loads no model but for `--gate` and `--rope-check`; `--why`, `--diff` of files, `--show-text` and `--import`
read a model's config and tokenizer. Other processes may use the folder meanwhile. Text of prompts
is shown by `--why` (where a stored sequence parts from the prompt) and with `--show-text`, else
never; control characters in it are escaped. A salt is never shown, only that there is one.

KV is stored in runs: consecutive blocks of one sequence, one file each. The key of a run names its
content; the beginning of a key is enough wherever a KEY is asked for.

- `overview`, without an option: `tiers` (`name`, `entries`, `blocks`, `tokens`, `bytes`, `cap_bytes`,
  `pinned_bytes`) and `entries` (`key`, `namespace`, `start`, `tokens`, `blocks`, `bytes`, `tier`, `created`,
  `last_used`, `hits`, `pinned`, `exact`, `provenance`), and `gates`, the
  records of the gate. `namespace` is what must agree for KV to be shared;
  `number` tells apart namespaces that differ in a hidden salt. Times are UTC.
- `--tree`: `namespaces`, and `nodes` in depth-first order: blocks that follow each other without a
  branch. `index` and `parent` make the tree; `start`, `tokens`, `blocks`, `bytes`; `tail_tokens` in a
  partly filled last block, else 0; `runs` and their `keys`; `hits` of the run used most often;
  `headless`: what stands in front is not stored, so nothing finds these blocks. The human view
  shows {branches} branches of a node and {nodes} nodes and counts the rest; JSON has all.
- `--why PROMPT`, `--file F`, `--messages F`: the prompt as `generate` renders it with the same options.
  `prompt_tokens`, `hit_tokens`, the `namespace` it is looked up under, and `spans`, which tile the prompt:
  `start`, `end`, `kind` (`hit` or `compute`), `tier`, `delta` (0: prefixes are not moved; with
  `other_position`, how far the text would be moved), `reason` with a
  sentence in `detail`, `first_difference` and, of namespaces, `differences`. The index is read, not the
  files (see `--check`). What another run holds in memory is not seen, nor that `generate` computes what
  the disk is too slow to deliver (`skipped_tokens` of its `cache`).
- `--diff A B`: of two runs, each with what stands in front of it, or of two files as prompts: `a` and `b`
  (`name`, `start`, `tokens`, `stored_tokens`, `runs`, `bytes`), `common_tokens`, `first_difference`, and the
  `differences` of their namespaces.
- `--check`: `ok`, `checked` (runs), `damaged` (`file`, `reason`), `unreachable` (runs whose head is gone; no
  damage). Damage ends with exit code 4. A damaged file is a miss, never a wrong answer.
- `--stats [--plot FILE]`: `statistics`, for each namespace its K and V by layer; of all runs, or with `--key`
  of the sequence that ends with that run.
- `--rope-check MODEL`: whether moving a key is a rotation, measured on the weights: `facts` (`name`,
  `statement`, `holds`, `measured`), `pairs` (the frequencies of each kind of layer, fast to slow), `holds`;
  `reason` where keys cannot be moved. A fact that fails ends with exit code 6.
- `--export` writes the sequence that ends with `--key`, or the only one there is; `--import` takes one in,
  for the model and options given. docs/hf-cache.md has the format.
- `--repair-index`: `kept` and `dropped` (`file`, `reason`); works on a folder whose index is lost.
- `--pin`, `--unpin`, `--prune`: `action`, the `keys` that were changed, their `tokens` and `bytes`, and how
  many named runs were `kept`. Whoever pins a run pins what stands in front of it; `--unpin` lets go of
  that too, as far as no other pinned run needs it.

What changes something asks first on a terminal; elsewhere it needs `--yes`. `--prune` takes one of

| | removes |
| --- | --- |
| `all` | everything |
| `older:7d` | what was stored more than seven days ago (`s`, `m`, `h`, `d`, `w`) |
| `unused:12h` | what was not read for twelve hours |
| `model:NAME` | what belongs to a model whose architecture or weights digest begins so |
| `KEY` | that run and all that continues it |

A pinned run stays, and so does one that a run which stays continues.

A store (`mooncake://HOST:PORT`) answers for keys and lists none: the overview says whether it
answers, `--why` asks it for a prompt, and nothing else is offered.

The reasons of `--why`:

| `reason` | means |
| --- | --- |
{reasons}
"""


INSPECT_CACHE = _INSPECT_CACHE.format(
    branches=SHOWN_BRANCHES,
    nodes=SHOWN_NODES,
    reasons="\n".join(f"| `{name}` | {text} |" for name, text in REASONS.items()),
)
