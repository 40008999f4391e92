"""The configuration of an input's lines: times, joining, filters, redaction.

Validated when it is loaded. The text below each field documents its key: `penstock keys` and
docs/agent-configuration.md are generated from it.
"""

import re
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from ground.settings import Pattern, Seconds, check_positive


def check_pattern(name: str, pattern: str) -> None:
    """Checks a regular expression. Raises ValueError."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`{name}`: invalid regular expression: {error}") from None


class Time(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the time of an event is found. Default: the time in the line, with formats that
    have one (`cri`, `docker`, `syslog` and those of programs); else when its line was read."""

    field: str
    """The field with the time; `a.b` is the field `b` of the object `a`."""
    format: str = "iso8601"
    """`iso8601`, `epoch`, `epoch_ms`, `epoch_us`, `epoch_ns`, `rfc3164` (`Nov 20 14:37:00`, the
    year is the nearest), or a pattern of Python's `strptime`: `%d/%b/%Y:%H:%M:%S %z`."""
    zone: str = "UTC"
    """The time zone of times without one, such as `Europe/Zurich`."""

    def __post_init__(self) -> None:
        if not self.field:
            raise ValueError("`field` must name the field with the time")
        named_formats = {"iso8601", "epoch", "epoch_ms", "epoch_us", "epoch_ns", "rfc3164"}
        if self.format not in named_formats and "%" not in self.format:
            raise ValueError(
                f"`format: {self.format}`: must be one of {', '.join(sorted(named_formats))}, "
                "or a pattern such as %d/%b/%Y:%H:%M:%S %z"
            )
        try:
            # UTC needs no list of time zones, which not every machine has.
            _ = self.zone == "UTC" or ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"`zone: {self.zone}`: unknown on this machine; zones such as Europe/Zurich need "
                "the package tzdata"
            ) from None


class Language(StrEnum):
    """A language whose stack traces are joined."""

    JAVA = "java"
    PYTHON = "python"
    GO = "go"
    RUBY = "ruby"


class Multiline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How several lines become one event. Exactly one of `start`, `continuation`, `indentation` and
    `language` is set."""

    start: Pattern = ""
    """A line that contains this pattern begins an event."""
    continuation: Pattern = ""
    """A line that contains this pattern continues the event before."""
    indentation: bool = False
    """A line that begins with white space continues the event before."""
    language: Language | None = None
    """Blank lines, lines that begin with white space, and [the lines of this language's stack
    traces](#stack-traces) continue the event before."""
    timeout: Seconds = 2.0
    """An event is complete when no line has followed for this long."""
    max_lines: int = 500
    """After this many lines, a new event begins."""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.start, self.continuation, self.indentation, self.language))) != 1:
            raise ValueError(
                "give exactly one of `start`, `continuation`, `indentation: true`, `language`"
            )
        for name in ("start", "continuation"):
            check_pattern(name, getattr(self, name))
        check_positive(self, "timeout", "max_lines")


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions for shipping an event: the first filter that applies decides. If none applies, an
    event is shipped, or dropped if any filter is a `keep`. Exactly one of `drop`, `keep` and
    `sample` is set."""

    name: str = ""
    """The reason in the ledger. Default: the pattern."""
    drop: Pattern = ""
    """Events that contain this pattern are dropped."""
    keep: Pattern = ""
    """Events that contain this pattern are shipped, others are dropped."""
    field: str = ""
    """The field to search; `a.b` is the field `b` of the object `a`. Default: the whole line."""
    sample: int = 0
    """One in so many lines is shipped, chosen by a checksum of the line: equal lines are all
    shipped or all dropped."""
    match: Pattern = ""
    """The lines to which `sample` applies. Default: all."""

    def __post_init__(self) -> None:
        if bool(self.drop) + bool(self.keep) + bool(self.sample) != 1:
            raise ValueError("give exactly one of `drop`, `keep`, `sample`")
        if self.match and not self.sample:
            raise ValueError("`match` requires `sample`")
        if self.sample and self.sample < 2:
            raise ValueError("`sample` must be at least 2: `sample: N` ships one line in N")
        for name in ("drop", "keep", "match"):
            check_pattern(name, getattr(self, name))


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pattern of text that must not leave this host: matches are replaced in events and dead
    letters, before filters apply."""

    pattern: Pattern
    """The text to replace."""
    replacement: str = ""
    r"""The replacement; `\1` is the first group. Default: nothing."""
    hash: bool = False
    """Replaces the text by a keyed digest: equal values stay equal."""
    key: str = ""
    """The key of the digest, required for `hash`, since digests of card numbers without a key can
    be reversed in minutes. Keep it in a file: `key_file: /etc/penstock/redaction.key`."""

    def __post_init__(self) -> None:
        check_pattern("pattern", self.pattern)
        if not self.pattern or re.compile(self.pattern).match(""):
            raise ValueError("`pattern` must not be empty or match empty text")
        if self.hash and self.replacement:
            raise ValueError("give `replacement` or `hash: true`, not both")
        if self.hash != bool(self.key):
            raise ValueError(
                "`hash: true` and `key` require each other: digests without a key can be reversed"
            )
