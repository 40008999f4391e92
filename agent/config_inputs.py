"""What an agent can be told about the files that it follows. Checked when it is loaded, once.

An input that is wrong in itself is refused here; whether it fits the schema of its topic is seen
when the registry is asked. Each key is explained at its field: `penstock keys` and
docs/agent-configuration.md have it from there.
"""

import codecs
import re
from collections.abc import Iterable, Set
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath
from typing import Final

import msgspec

from agent.config_lines import Filter, Multiline, Redaction, Time, check_pattern
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from ground.settings import Bytes, FilePath, Pattern, Seconds, check_not_negative, check_positive
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC

_LONGEST_TOPIC: Final = 249
_MOST_INPUTS: Final = 1_000


def _check_topic(topic: str) -> None:
    try:
        check_topic_name(topic)
    except InvalidTopicName as error:
        raise ValueError(f"`topic`: {error}") from None
    if len(topic) + len(DEAD_SUFFIX) > _LONGEST_TOPIC:
        raise ValueError(f"`topic` is too long for {DEAD_SUFFIX} to be added for dead letters")
    if topic == LEDGER_TOPIC or topic.endswith(DEAD_SUFFIX):
        raise ValueError(f"`topic: {topic}` belongs to Penstock itself")


def _check_start(start: str) -> None:
    if start in {"beginning", "end"}:
        return
    try:
        datetime.fromisoformat(start)
    except ValueError:
        raise ValueError(
            f"`start: {start}` is neither beginning nor end nor a date such as 2026-11-20"
        ) from None


class Format(StrEnum):
    """How a line is understood."""

    PLAIN = "plain"
    JSON = "json"
    LOGFMT = "logfmt"
    REGEX = "regex"
    CRI = "cri"
    DOCKER = "docker"
    SYSLOG = "syslog"


class UnknownFields(StrEnum):
    """What becomes of fields of a line that its topic's schema does not have."""

    KEEP = "keep"
    DROP = "drop"
    DEAD = "dead"


class LongLines(StrEnum):
    """What becomes of a line beyond `max_line_bytes`."""

    CUT = "cut"
    DEAD = "dead"


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of one kind, and what becomes of their lines."""

    paths: tuple[FilePath, ...]
    """Absolute, with `*`, `?`, `[…]`, and `**` for any number of folders. As in a shell, `*` does
    not match a leading dot."""
    topic: str
    """Where its events go. Dead letters go to `{topic}.dead`."""
    name: str = ""
    """Of the input, in messages and metrics; must be unique. Files of an input that was renamed go
    on under the new name, if the topic is the same. Without it: the topic."""
    exclude: tuple[str, ...] = ()
    """What is left out, folders with all that is in them: names (`*.tmp`, `old`), or, with a `/`,
    paths (`/var/log/shop/*`, `shop/debug.log`)."""
    app: str = ""
    """`header.app` of its events. Without it: the topic."""
    format: Format = Format.PLAIN
    """How a line is understood: [formats](#formats)."""
    pattern: Pattern = ""
    r"""Of `format: regex`, with named groups: `(?P<level>\w+)`."""
    schema: FilePath = ""
    """An `.avsc` file, registered for the topic where `auto_register` is on. Beside the file that
    names it, if it is not absolute."""
    time: Time | None = None
    encoding: str = "utf-8"
    """Any that Python knows. What is not valid in it becomes U+FFFD, and is
    [counted](agent-in-detail.md#altered-text)."""
    multiline: Multiline | None = None
    start: str = "beginning"
    """Of files that are there when the input is new: `beginning`, `end`, or a date such as
    `2026-11-20`: those that were last written before it are not read, the others whole. Files that
    appear later are always read from their beginning."""
    ignore_older: Seconds = 0.0
    """Files that nobody has touched for so long are not begun; 0: none is too old."""
    max_line_bytes: Bytes = 1024 * 1024
    """A longer line is cut there, or dead: see `long_lines`."""
    long_lines: LongLines = LongLines.CUT
    """`cut`: the rest of the line is counted, and skipped. `dead`: a dead letter has its
    beginning."""
    last_line_timeout: Seconds = 5.0
    """A last line without newline is taken as it is when nothing has come for so long."""
    unknown_fields: UnknownFields = UnknownFields.DROP
    """Fields that the topic's schema does not have. `keep` puts them as text into its field
    `extra`, a map of strings, and needs one there; `dead` makes the line a dead letter."""
    filters: tuple[Filter, ...] = ()
    redact: tuple[Redaction, ...] = ()
    add_fields: dict[str, str | int | float | bool] = {}
    """Fields with the same value in every event: `{datacenter: dc1}`."""
    rate_limit: float = 0.0
    """Lines a second. It delays and never drops; 0: no limit."""
    partition_by: str = "agent"
    """`agent`, `source`, `random` or `field:NAME`:
    [order and partitions](agent-in-detail.md#order-and-partitions)."""

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("`paths` must name one file or pattern at least")
        for key in ("paths", "exclude"):
            for path in getattr(self, key):
                if key == "paths" and not PurePath(path).is_absolute():
                    raise ValueError(f"`{key}`: {path} is not absolute")
        _check_topic(self.topic)
        check_pattern("pattern", self.pattern)
        if (self.format is Format.REGEX) != bool(self.pattern):
            raise ValueError("`pattern` belongs to `format: regex`, which needs it")
        if self.pattern and not re.compile(self.pattern).groupindex:
            raise ValueError("`pattern` has no named group, such as (?P<level>\\w+)")
        _check_start(self.start)
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"`encoding: {self.encoding}` is not known, as latin-1 is") from None
        if self.partition_by not in {"agent", "source", "random"} and not re.fullmatch(
            r"field:\S+", self.partition_by
        ):
            raise ValueError("`partition_by` must be agent, source, random or field:NAME")
        if self.format is Format.PLAIN:
            wrong = "partition_by" if self.partition_by.startswith("field:") else ""
            wrong = wrong or next((key for key in ("time", "add_fields") if getattr(self, key)), "")
            if wrong:
                raise ValueError(f"`{wrong}` needs fields, and `format: plain` has none")
        check_positive(self, "max_line_bytes", "last_line_timeout")
        check_not_negative(self, "ignore_older", "rate_limit")

    @property
    def label(self) -> str:
        return self.name or self.topic


def check_distinct(inputs: Iterable[Input], names: Set[str] = frozenset()) -> None:
    """Raises ValueError if two inputs cannot be told from each other. `names` are taken already."""
    found = set(names)
    for each in inputs:
        if each.label in found:
            raise ValueError(f"two inputs are called {each.label}: give each a `name` of its own")
        found.add(each.label)
    if len(found) > _MOST_INPUTS:
        raise ValueError(f"{len(found)} inputs are more than {_MOST_INPUTS}")
