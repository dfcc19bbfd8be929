"""Control tokens in what a user wrote are text; those that the chat template writes are tokens.

    content  "hi<|im_end|>"      marked before rendering:   "hi‹mark of <|im_end|>›"
    rendered "…hi‹mark›<|im_end|>"                           only the template's own is left
    encoded  by a twin of the tokenizer whose control tokens have secret names: the template's get
             the secret name, the marks become the text that they stand for, and the whole string
             is tokenised at once.

The secret is new in each process, so no text can contain a mark or a secret name.
"""

from __future__ import annotations

import json
import re
import secrets
from functools import cached_property
from typing import Any


class ControlTokens:
    """`fast`: a `tokenizers.Tokenizer`."""

    def __init__(self, fast: Any) -> None:
        self._fast = fast
        self._ids: dict[str, int] = {
            token.content: token_id
            for token_id, token in sorted(fast.get_added_tokens_decoder().items())
            if token.special and token.content
        }
        self._contents = list(self._ids)
        self._secret = f"\ufdd0{secrets.token_hex(8)}\ufdd0"
        longest_first = sorted(self._contents, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._mark = re.compile(f"{self._secret}([0-9]+);")

    def mark(self, value: Any) -> Any:
        """A copy with every control token in every string replaced; keys of objects are kept."""
        if isinstance(value, str):
            return self._control.sub(self._mark_of, value)
        if isinstance(value, dict):
            return {key: self.mark(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mark(item) for item in value]
        return value

    def unmark(self, text: str) -> str:
        return self._mark.sub(self._content_of, text)

    def behind(self, marked: str, length: int) -> str:
        """What follows the first `length` characters of the unmarked text, still marked."""
        position = 0
        for match in self._mark.finditer(marked):
            if length <= match.start() - position:
                break
            length -= match.start() - position
            content = self._content_of(match)
            position = match.end()
            if length < len(content):
                return content[length:] + marked[position:]
            length -= len(content)
        return marked[position + length :]

    def encode(self, marked: str) -> list[int]:
        """Token ids of the whole text, without anything that the tokenizer adds around a text."""
        return list(self._encoding(marked).ids)

    def encode_with_starts(self, marked: str) -> tuple[list[int], list[int]]:
        """The ids of `encode`, and the character of `marked` at which each token begins; those of
        a marked control token begin where its mark does."""
        encoding = self._encoding(marked)
        starts = [start for start, _ in encoding.offsets]
        if self._mark.search(marked) is not None:
            origins = self._origins(marked)
            starts = [origins[start] for start in starts]
        return list(encoding.ids), starts

    def spans(self, marked: str) -> list[tuple[int, int]]:
        """Characters [start, stop) of each control token that the template wrote."""
        return [match.span() for match in self._control.finditer(marked)]

    def _encoding(self, marked: str) -> Any:
        if self._mark.search(marked) is None:
            return self._fast.encode(marked, add_special_tokens=False)
        text = self._control.sub(lambda match: self._secret_name(match[0]), marked)
        return self._twin.encode(self.unmark(text), add_special_tokens=False)

    def _origins(self, marked: str) -> list[int]:
        """Of each character that the twin gets, and of the end: its place in `marked`."""
        origins: list[int] = []
        position = 0
        for match in re.finditer(f"{self._control.pattern}|{self._mark.pattern}", marked):
            origins.extend(range(position, match.start()))
            mark = self._mark.fullmatch(match[0])
            written = self._content_of(mark) if mark else self._secret_name(match[0])
            origins.extend([match.start()] * len(written))
            position = match.end()
        return [*origins, *range(position, len(marked) + 1)]

    def _mark_of(self, match: re.Match[str]) -> str:
        return f"{self._secret}{self._contents.index(match[0])};"

    def _content_of(self, mark: re.Match[str]) -> str:
        return self._contents[int(mark[1])]

    def _secret_name(self, content: str) -> str:
        return content + self._secret

    @cached_property
    def _twin(self) -> Any:
        from tokenizers import Tokenizer

        twin = Tokenizer.from_str(json.dumps(self._renamed(json.loads(self._fast.to_str()))))
        assert all(twin.token_to_id(self._secret_name(c)) == i for c, i in self._ids.items())
        return twin

    def _renamed(self, content: dict[str, Any]) -> dict[str, Any]:
        """tokenizer.json with secret names, and without merges that would build a control token."""

        def name(token: str) -> str:
            return self._secret_name(token) if token in self._ids else token

        model = content["model"]
        vocab = model["vocab"]
        if isinstance(vocab, dict):
            model["vocab"] = {name(token): token_id for token, token_id in vocab.items()}
        else:  # Unigram: a list of token and score
            model["vocab"] = [[name(token), score] for token, score in vocab]
        if isinstance(model.get("unk_token"), str):
            model["unk_token"] = name(model["unk_token"])
        if "merges" in model:
            model["merges"] = [
                [a, b] for a, b in model["merges"] if self._ids.keys().isdisjoint((a, b, a + b))
            ]
        for added in content["added_tokens"]:
            if added["special"]:
                added["content"] = name(added["content"])
        return content
