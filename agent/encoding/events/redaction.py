"""Redacts text that must not leave this host, before a line is processed further.

Whole lines are searched, long ones in overlapping windows: a match of up to half a window is found
at any position, and no pattern searches more than a window at once. A match that reaches the end of
its window is extended as far as it goes.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from agent.configuration.lines import Redaction
from agent.encoding.lines.encodings import utf8

WINDOW: Final = 8 * 1024
_STEP: Final = WINDOW // 2
_DIGEST_BYTES: Final = 16

Replace = Callable[["re.Match[str]"], str]


class _Rule(msgspec.Struct, frozen=True):
    """A pattern and its replacement. A template is faster than the function for single matches."""

    pattern: re.Pattern[str]
    replace: Replace
    template: str | None = None

    def replaced(self, text: str) -> str:
        return self.pattern.sub(self.replace if self.template is None else self.template, text)


class Redactor:
    def __init__(self, redactions: Iterable[Redaction]) -> None:
        """Raises ValueError for a replacement with a group that the pattern does not have."""
        self._rules = [_rule(redaction) for redaction in redactions]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def text(self, text: str) -> str:
        for rule in self._rules:
            if len(text) <= WINDOW:
                text = rule.replaced(text)
            else:
                text = "".join(_replaced_by_windows(rule, text))
        return text

    def bodies(self, bodies: list[bytes]) -> list[bytes]:
        return [self._body(body) for body in bodies] if self._rules else bodies

    def _body(self, body: bytes) -> bytes:
        text = body.decode()
        redacted_text = self.text(text)
        return body if redacted_text == text else utf8(redacted_text)


def _rule(redaction: Redaction) -> _Rule:
    pattern, template = re.compile(redaction.pattern), redaction.replacement
    if redaction.hash:
        return _Rule(pattern, _digest(redaction.key.encode()))
    try:
        pattern.sub(template, "")
    except (re.error, IndexError) as error:
        raise ValueError(f"`replacement: {template}` is invalid: {error}") from None
    return _Rule(pattern, lambda match: match.expand(template), template)


def _digest(key: bytes) -> Replace:
    key = key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest()

    def digest(match: "re.Match[str]") -> str:
        return blake2b(utf8(match.group()), digest_size=_DIGEST_BYTES, key=key).hexdigest()

    return digest


def _replaced_by_windows(rule: _Rule, text: str) -> Iterator[str]:
    # Text before `done_up_to` has been yielded; no match begins before `search_from`.
    done_up_to = search_from = 0
    while search_from < len(text):
        end = min(search_from + WINDOW, len(text))
        match = rule.pattern.search(text, search_from, end)
        if match is None:
            search_from = len(text) if end == len(text) else search_from + _STEP
            continue
        if match.end() == end < len(text):
            match = _whole(rule.pattern, text, match)
        yield text[done_up_to : match.start()]
        yield rule.replace(match)
        done_up_to = match.end()
        search_from = done_up_to + (match.start() == done_up_to)
    yield text[done_up_to:]


def _whole(pattern: re.Pattern[str], text: str, match: "re.Match[str]") -> "re.Match[str]":
    """Extends a match that reaches the end of its window."""
    size = 2 * WINDOW
    while True:
        end = min(match.start() + size, len(text))
        longer_match = pattern.match(text, match.start(), end)
        match = longer_match or match
        if longer_match is None or match.end() < end or end == len(text):
            return match
        size *= 2
