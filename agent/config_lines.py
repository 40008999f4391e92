"""What an input can be told about its lines: their times, their joining, filters, redaction.

Checked when a configuration is loaded, once. Each key is explained at its field: `penstock keys`
and docs/agent-configuration.md have it from there.
"""

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from ground.settings import Pattern, Seconds, check_positive


def check_pattern(name: str, pattern: str) -> None:
    """Raises ValueError."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`{name}` is no regular expression: {error}") from None


class Time(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an event says when it happened. Without it, that is when its line was read (with `cri`,
    `docker` and `syslog`: what the line says)."""

    field: str
    """The field that says it; `a.b` reaches into an object."""
    format: str = "iso8601"
    """`iso8601`, `epoch`, `epoch_ms`, `epoch_us`, `epoch_ns`, `rfc3164` (`Nov 20 14:37:00`, the
    year is the nearest), or a pattern of Python's `strptime`: `%d/%b/%Y:%H:%M:%S %z`."""
    zone: str = "UTC"
    """Of times that do not say it, such as `Europe/Zurich`."""

    def __post_init__(self) -> None:
        if not self.field:
            raise ValueError("`field` must name the field that holds the time")
        named = {"iso8601", "epoch", "epoch_ms", "epoch_us", "epoch_ns", "rfc3164"}
        if self.format not in named and "%" not in self.format:
            raise ValueError(
                f"`format: {self.format}` is neither one of {', '.join(sorted(named))} "
                "nor a pattern such as %d/%b/%Y:%H:%M:%S %z"
            )
        try:
            # UTC needs no list of time zones, which not every machine has.
            _ = self.zone == "UTC" or ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"`zone: {self.zone}` is not known on this machine, as Europe/Zurich is where "
                "Debian's tzdata is installed"
            ) from None


class Multiline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How several lines become one event. One of `start`, `continuation`, `indentation`."""

    start: Pattern = ""
    """A line in which this is found begins an event."""
    continuation: Pattern = ""
    """A line in which this is found belongs to the event before."""
    indentation: bool = False
    """A line that begins with white space belongs to the event before."""
    timeout: Seconds = 2.0
    """After so long without more, the event is complete."""
    max_lines: int = 500
    """What follows after so many lines is another event."""

    def __post_init__(self) -> None:
        if bool(self.start) + bool(self.continuation) + self.indentation != 1:
            raise ValueError("give exactly one of `start`, `continuation`, `indentation: true`")
        for name in ("start", "continuation"):
            check_pattern(name, getattr(self, name))
        check_positive(self, "timeout", "max_lines")


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events are shipped: gone through in order, the first that applies decides. Where none
    applies, an event is shipped; but if there is a `keep`, it is dropped. One of `drop`, `keep`,
    `sample`."""

    name: str = ""
    """The reason that stands in the ledger. Without it: the pattern."""
    drop: Pattern = ""
    """What this is found in is dropped."""
    keep: Pattern = ""
    """What this is found in is shipped, and what it is not found in is dropped."""
    field: str = ""
    """Where it is looked for; `a.b` reaches into an object. Without it: in the whole line."""
    sample: int = 0
    """Of so many lines one is shipped. Which one is decided by a checksum of the line: the same
    line always meets the same fate."""
    match: Pattern = ""
    """To which lines `sample` applies. Without it: to all."""

    def __post_init__(self) -> None:
        if bool(self.drop) + bool(self.keep) + bool(self.sample) != 1:
            raise ValueError("give exactly one of `drop`, `keep`, `sample`")
        if self.match and not self.sample:
            raise ValueError("`match` belongs to `sample`")
        if self.sample and self.sample < 2:
            raise ValueError("`sample` must be 2 at least: one line in so many is shipped")
        for name in ("drop", "keep", "match"):
            check_pattern(name, getattr(self, name))


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must not leave this host: what is replaced is in no event, in no dead letter, and no
    filter sees it."""

    pattern: Pattern
    """What is replaced."""
    replacement: str = ""
    r"""What takes its place; `\1` is the first group. Without it: nothing."""
    hash: bool = False
    """A keyed digest takes its place instead: equal values stay equal."""
    key: str = ""
    """Of the digest, and needed for `hash`, since without one card numbers are guessed back in
    minutes. Keep it in a file: `key_file: /etc/penstock/redaction.key`."""

    def __post_init__(self) -> None:
        check_pattern("pattern", self.pattern)
        if not self.pattern or re.compile(self.pattern).match(""):
            raise ValueError("`pattern` must match something, and never nothing")
        if self.hash and self.replacement:
            raise ValueError("give `replacement` or `hash: true`, not both")
        if self.hash != bool(self.key):
            raise ValueError(
                "`hash: true` and `key` belong together: without a key, digests can be guessed back"
            )
