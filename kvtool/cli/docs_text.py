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
  `computed_tokens`; `completion_tokens`. Shifted tokens are cached ones moved to another position,
  recomputed ones are corrected after a move: both stay 0 as long as only prefixes are reused.
- `timing`: `ttft_ms`, `tpot_ms`, `total_ms`.
- `cache`: counters of the run. Rates come with their definition. `hit_rate`: {hit_rate}; with its
  `numerator` and `denominator`. `fragmentation`: {fragmentation}.
- `effective`: the value of every engine option in this run; `max_tokens` (without the option 256,
  or what the context leaves); `kv_bytes_per_token`, over all layers; `min_reusable_tokens`, the
  shortest common prefix that can be taken from the cache: 1 with `--prefix-index radix`, a block
  with `chain`, a chunk with `--deterministic`, null with `--reuse none`.
- `verify`, where asked for: `reused_tokens` (of the prompt; at 0 nothing was reused, and nothing
  about reuse is shown), `max_abs_logit_diff`, `kl_mean`, `top1_agreement`, `tolerance`, `verdict`
  (`identical`, `within tolerance`, `different`).
- `logprobs`, where asked for.
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

A hash is a SHA-256 in hex over the hash of the block before and the block's tokens; at the start of a
sequence, over what requests must have in common to share KV, such as the model, the dtype and the
salt. `medium` is where the block lies: `device`. `group_id` is the
layer group, from 0: every group announces its own blocks.
"""

CONVERSATIONS = """\
## Conversations

`--messages chat.json` is a list of OpenAI-style messages, or an object with such a list under
`messages`; PROMPT and files, if given, are one more user message. `--append` writes that message
and the reply back, all or nothing; with a PROMPT the list may be empty and the file be new.

The cache lives as long as the process: across runs nothing is reused yet, and the next turn of a
conversation, in a run of its own, computes it from the start. What `--append` keeps is the token
ids of the conversation up to the end of the reply. The next turn continues on them and tokenises
only what is new, so that its tokens begin exactly as the previous turn ended: that is what will
make reuse across runs possible. After an edit, or with another tokenizer or template, the text is
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
