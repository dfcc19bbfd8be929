"""The prose of docs/cli.md; `docs` adds what the program knows."""

from __future__ import annotations

HEAD = """\
# Command line

This page is made from the program: `python -m kvtool.cli.docs > docs/cli.md`.

## Rules for every command

- Results go to stdout, everything else (progress, warnings, statistics, errors) to stderr. Off a
  terminal, and with `NO_COLOR` or `TERM=dumb`, there is no colour, spinner or escape code.
- `--format json` writes one document on stdout and nothing else; after an error it is
  `{"error": {"type", "message", "hint", "exit_code"}}`.
- An error is one line `error: …` on stderr and mostly one `hint: …` with what to try next.
  `KVTOOL_DEBUG=1` adds the traceback of an internal error.
- Ctrl-C ends within a second; text that was shown stays. When the reader of stdout goes away
  (`kvtool … | head`), kvtool ends quietly with exit code 0.
- JSON that is read must be strict: no `NaN`, no number beyond a float's range, at most 100 lists and
  objects inside each other.
- `-` in place of a file is stdin.
- Text is UTF-8. Of stdin and of each `--file`, a BOM at the start and exactly one newline at the
  end are dropped; everything else is kept, because it changes the tokens and with them what the
  cache can find. `echo hi | kvtool generate -` is `kvtool generate hi`.
"""

DTYPES_AND_SIZES = """\
Sizes are a number and a unit, in any case: {binary} are powers of two, {decimal} powers of ten; a
plain number is bytes. Dtypes have short names: {aliases}. Whole numbers are digits only: `1.0` and
`1_0` are refused.
"""

SCHEDULER = """\
## The scheduler

Running requests go first, one token each; then waiting prompts, in chunks, while the budget of
the step lasts. Of the waiting requests the one with the longest cached prefix is admitted first;
`max_overtakes` bounds how often later arrivals may pass an earlier one. When blocks run out, the
request admitted last gives its blocks back and is computed again later.
"""

JSON_DOCUMENT = """\
## The JSON document of `generate`

- `text`, and `token_ids`: EOS included, and the tokens of a stop string, which `text` omits.
- `finish_reason`: `eos`, `stop` or `length`.
- `usage`: `prompt_tokens` = `cached_tokens` + `shifted_tokens` + `recomputed_tokens` +
  `computed_tokens`; `completion_tokens`. Shifted tokens are cached ones used at another position,
  recomputed ones belong to such text and were computed again: both stay 0 without `--reuse shift`.
- `timing`: `ttft_ms`, `tpot_ms`, `total_ms`.
- `cache`: counters of the run. Rates come with their definition. `hit_rate`: {hit_rate}; with its
  `numerator` and `denominator`. `fragmentation`: {fragmentation}. `cached_by_tier`: the cached
  tokens by where they came from; `device` is the block pool. `shifted_tokens` and
  `recomputed_tokens`: as in `usage`, of all requests; `refused_runs`: cached text that was not moved, by
  reason. `tiers`: for each tier below the
  pool what was loaded and stored (blocks, tokens, bytes, seconds), `load_failures`, `not_stored`
  (reason and how often), `skipped_tokens` (computed, because to load them is slower), and the
  rates behind that decision, `bytes_per_s` and `compute_tokens_per_s` (null: not measured yet).
- `effective`: the value of every engine option in this run; `max_tokens` (without the option 256,
  or what the context leaves); `kv_bytes_per_token`, over all layers; `min_reusable_tokens`, the
  shortest common prefix that can be taken from the cache: 1 with `--prefix-index radix`, a block
  with `chain`, a chunk with `--deterministic`, null with `--reuse none`.
- `verify`, where asked for: `reused_tokens` (of the prompt; at 0 nothing was reused, and nothing
  about reuse is shown), `max_abs_logit_diff`, `kl_mean`, `top1_agreement`, `tolerance`, `verdict`
  (`identical`, `within tolerance`, `different`; exit code 6). With moved text the verdict is
  `approximate` and `tolerance` null: how far its logits are off is told, and is no failure.
- `logprobs`, where asked for.
"""

PREFILL = """\
## The JSON document of `prefill`

- `files`, one for each prompt: `name`; `prompt_tokens` and its parts as in `usage` above; `tier`,
  the lowest there is (`disk`, or `remote` with `--remote`); `stored_tokens`, how many leading
  tokens lie there once all is stored, and `stored_bytes`, their KV. Fewer than `prompt_tokens`
  come with a warning that says why; none at all of a prompt is exit code 4.
- `timing`: `compute_ms`; `store_ms`, from the last token computed until all was stored; `total_ms`.
- `cache` and `effective` as above.

FILE is rendered as `generate --file FILE` renders it, up to the end of its text. What `generate`
puts behind it (a blank line and PROMPT, or the end of the turn) may be one token with the last
characters of the file; then that token alone is computed anew. `--concat` makes one prompt of all
files, as `generate --file A --file B` does.
"""

STORAGE = """\
## Where KV is kept

A run looks for the KV of a prompt in its block pool (`device`), then in host memory, on disk and
in the remote store, and takes of each what the ones before it do not have. What it computes is
written to all of them while it goes on, and is there for every later run with the same weights,
tokenizer, dtype, block size, rotary settings and salt: anything else is never mixed up. A tier
that is full, slow, damaged or gone costs time, never the answer; a warning says so.

- The disk is used unless `--no-cache-dir` is given. The folder is `--cache-dir`, else the
  environment variable `{environment}`, else `kvtool/kv` in the user's cache folder. Any number of
  processes may share it. `--cache-size` is the most bytes it takes, whoever wrote them.
- The command ends when everything is stored; after an error or Ctrl-C it ends at once, and what
  was not stored by then is computed again next time.
- Where to load takes longer than to compute, by the rates measured so far, a run computes;
  `--stats` shows both times.
- `--reuse none` uses no tier and stores nothing.
"""

SHIFT = """\
## Text at another position

With `--reuse shift` a text whose KV is in the block pool, or in a tier, is used wherever it turns up
again, not only where a prompt begins with it: its keys are turned to the new position. That is
approximate, because it was computed behind other text; `--repair` says which of its tokens are
computed again, and `--donor` which of several copies is taken. Exact hits come first; what is computed
behind moved text is never stored and serves no exact request: later turns go on from it.

It needs a passing record of the gate, or `--ungated`. `inspect-cache --gate MODEL` makes one: the
prompts of a built-in probe set are computed in full and with moved text. Their situations:
{situations}.
The record is kept in the cache folder, where `--prune` leaves it; with `--no-cache-dir` the usual
folder is read. It holds for the weights, the dtype, `--reuse-scheme`, `--repair`, `--donor` and
`--min-run` it was made with. Its JSON document:

- `passed`, `failures` (why not), `limits` (`--gate-kl`, `--gate-top1`), `model`, `created`, `device`, `subject`
  (what it holds for), `key`, `file`;
- `situations`, and `pooled` over all of them: `cases` and `unmoved_cases` (prompts in which text was
  moved, and in which none was), `prompt_tokens`, `moved_tokens`, `recompute_share` of these,
  `kl_mean` (of KL(full recompute ∥ moved), nats), `top1_agreement`, `nll_change` of the answer's tokens. The
  rows are the last one of each prompt and those of its answer, which is fed token by token.

Exit code 6: outside the limits; the record is kept all the same.
"""

EVENTS = """\
## Events

`--events FILE` gets one JSON object a line, as it happens. Only full blocks are announced: the
last, partly filled block of a sequence can be reused, but has no hash and no event.

| `type` | fields |
| --- | --- |
| `BlockStored` | `block_hashes`: of a run of blocks, in order; `parent_block_hash`: of the block before them, null at the start of a sequence; `token_ids`: of all these blocks; `block_size`; `lora_id`: null; `medium`; `group_id` |
| `BlockRemoved` | `block_hashes`, `medium`, `group_id` |
| `AllBlocksCleared` | none |
| `RunReused` | with `--reuse shift`, of text used at another position: `start`, `stop`: prompt tokens; `delta`: how far they moved; `origin`: `pool`, `kept`, `approximate`, or the tier it was loaded from; `block_hashes`: of the donor's full blocks; `group_id` |

A hash is a SHA-256 in hex over the hash of the block before and the block's tokens; at the start of a
sequence, over what requests must have in common to share KV, such as the model, the dtype and the
salt. `medium` is where the block lies: `device`, `host`, `disk` or `remote`. `group_id` is the
layer group, from 0: every group announces its own blocks.
"""

CONVERSATIONS = """\
## Conversations

`--messages chat.json` is a list of OpenAI-style messages, or an object with such a list under
`messages`; PROMPT and files, if given, are one more user message. `--append` writes that message
and the reply back, all or nothing; with a PROMPT the list may be empty and the file be new.

What `--append` keeps in the file is the token ids of the conversation up to the end of the reply;
their KV is kept in the cache folder. The next turn, in a run of its own, continues on the ids and
tokenises only what is new, so its tokens begin exactly as the previous turn ended, and only the
new ones are computed. After an edit, or with another tokenizer or template, the text is
tokenised anew and a warning says so. Without a chat template, and with `--raw`, the contents are
joined by blank lines.
"""

BATCH = """\
## Batch files

One request a line, one result line each in the same order, all computed together. A request has
{content}, or a `body` with them (OpenAI Batch format); `prompt` is text or a list of token ids.
Other fields: {fields}; they stand before the options of the command line. {ignored} and the
envelope of the Batch format are ignored, unknown fields are refused. `custom_id` is handed back and
may repeat. Line k samples with `--seed` + k - 1. A bad line gives
`{{"line": N, "custom_id": …, "error": {{…}}}}`; the rest goes on, and the exit code is 5.
`--verify` keeps the logits of every reply until all are done (4 bytes for each token and each entry
of the vocabulary: 50 MB for 256 tokens of 49,152 entries); divide a large file. In the human view
a table on stderr sums it up: replies verified, replies with reused tokens, the worst difference
with its tolerance, and the verdicts.
"""
