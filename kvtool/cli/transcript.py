"""A conversation in a file that continues on token ids, not on re-tokenised text.

Text that a model wrote may tokenise to other ids than the model chose, and then none of the KV of
the reply is found again. So a reply is stored with the ids of everything up to its end:

    {"role": "assistant", "content": …, "kvtool": {"token_ids": […], "reply_tokens": 9, "digest": …}}

The digest covers the rendered text that the ids stand for and the tokenizer. The next turn takes
the ids while the digest fits, and tokenises only the text behind them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtool.cli.messages import parse_messages
from kvtool.cli.output import strict_json
from kvtool.cli.text import STDIN, decode_utf8, read_bytes
from kvtool.errors import InputError
from kvtool.json_input import parse_json
from kvtool.models.chat import Message
from kvtool.models.tokenizer import Tokenizer, check_token_ids

KEY = "kvtool"


@dataclass(frozen=True, slots=True)
class Transcript:
    """The file as it was read: a list of messages, or an object with the list under `messages`."""

    path: str
    document: Any
    messages: list[Message]

    @classmethod
    def read(cls, path: str, *, may_be_empty: bool = False) -> Transcript:
        """may_be_empty: a message follows, so the list itself needs none."""
        where = "stdin" if path == STDIN else path
        document = parse_json(decode_utf8(read_bytes(path), where), where)
        listed = document.get("messages") if isinstance(document, dict) else document
        if may_be_empty and listed == []:
            return cls(path, document, [])
        return cls(path, document, parse_messages(listed, where))

    @classmethod
    def to_append(cls, path: str, *, may_be_empty: bool) -> Transcript:
        """A file that can be written, or with `may_be_empty` a new one; raises `InputError`."""
        file = Path(path).resolve()
        place = file if file.exists() else file.parent
        for needed in (place, file.parent):  # the file is replaced by a new one in its folder
            if place.exists() and not os.access(needed, os.W_OK):
                raise InputError(f"Cannot write {path!r}: {str(needed)!r} is not writable.")
        if may_be_empty and file.parent.is_dir() and not file.exists():
            return cls(path, [], [])
        return cls.read(path, may_be_empty=may_be_empty)

    def append(self, added: Sequence[Message]) -> None:
        """Write the file with the messages `added` at its end: all of it or nothing."""
        if isinstance(self.document, dict):
            document: Any = {**self.document, "messages": [*self.document["messages"], *added]}
        else:
            document = [*self.document, *added]
        _replace_file(Path(self.path).resolve(), strict_json(document, indent=2))


def reply_message(
    tokenizer: Tokenizer, prompt_text: str, prompt_ids: list[int], text: str, reply_ids: list[int]
) -> Message:
    """The assistant's message with the ids behind `prompt_text + text`.

    `reply_ids` come without EOS. Behind a stop string they say more than `text`; the ids kept are
    the most that decode to a beginning of it.
    """
    kept = len(reply_ids)
    while not text.startswith(tokenizer.decode(reply_ids[:kept])):
        kept -= 1
    token_ids = prompt_ids + reply_ids[:kept]
    covered = prompt_text + tokenizer.decode(reply_ids[:kept])
    known = {
        "token_ids": token_ids,
        "reply_tokens": kept,
        "digest": _digest(tokenizer, covered, token_ids),
    }
    return {"role": "assistant", "content": text, KEY: known}


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Ids of the conversation's beginning and the text that they stand for."""

    token_ids: list[int]
    text: str


def known_ids(
    tokenizer: Tokenizer, messages: Sequence[Message], rendered: str, vocab_size: int
) -> KnownIds | None:
    """What the last stored reply covers of `rendered`; None when it no longer fits.

    It does not fit when an earlier message was edited, or when the tokenizer or the chat template
    is another one. vocab_size: of the model, whose ids they are.
    """
    for index in range(len(messages) - 1, -1, -1):
        stored = messages[index].get(KEY)
        if stored is None:
            continue
        token_ids, reply_tokens = _stored_ids(stored, vocab_size, index)
        reply_ids = token_ids[len(token_ids) - reply_tokens :]
        try:
            prompt_text = tokenizer.render(plain(messages[:index]))
        except InputError:  # no conversation can be at its end here, so what was there is gone
            return None
        text = prompt_text + tokenizer.decode(reply_ids)
        fits = stored.get("digest") == _digest(tokenizer, text, token_ids)
        return KnownIds(token_ids, text) if fits and rendered.startswith(text) else None
    return None


def plain(messages: Sequence[Message]) -> list[Message]:
    """The messages without our own field, as a template may see them."""
    return [{name: m[name] for name in m if name != KEY} for m in messages]


def _stored_ids(stored: object, vocab_size: int, index: int) -> tuple[list[int], int]:
    ids = stored.get("token_ids") if isinstance(stored, dict) else None
    count = stored.get("reply_tokens") if isinstance(stored, dict) else None
    if not isinstance(ids, list) or type(count) is not int or not 0 <= count <= len(ids):
        raise InputError(f"message {index} has a damaged field {KEY!r}.", hint="Remove the field.")
    return check_token_ids(ids, vocab_size), count


def _digest(tokenizer: Tokenizer, text: str, token_ids: Sequence[int]) -> str:
    fields = [tokenizer.digest, text, list(token_ids)]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def _replace_file(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)
