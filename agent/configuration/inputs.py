"""The configuration of inputs: the files that an agent follows. Validated when it is loaded.

Whether an input fits the schema of its topic is checked later, when the registry has answered. The
text below each field documents its key: `penstock keys` and docs/agent-configuration.md are
generated from it."""

import codecs
import re
from collections.abc import Iterable, Set
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath
from typing import Final

import msgspec

from agent.configuration.lines import Filter, Multiline, Redaction, Time, check_pattern
from agent.configuration.system_journal import SystemJournal
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
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
        raise ValueError(f"`topic` is too long: no room for the dead letters' suffix {DEAD_SUFFIX}")
    if topic == LEDGER_TOPIC or topic.endswith(DEAD_SUFFIX):
        raise ValueError(f"`topic: {topic}` is reserved for Penstock")


def _check_start(start: str) -> None:
    if start in {"beginning", "end"}:
        return
    try:
        datetime.fromisoformat(start)
    except ValueError:
        raise ValueError(
            f"`start: {start}`: must be beginning, end, or a date such as 2026-11-20"
        ) from None


class Format(StrEnum):
    """The format of lines."""

    PLAIN = "plain"
    JSON = "json"
    LOGFMT = "logfmt"
    REGEX = "regex"
    CRI = "cri"
    DOCKER = "docker"
    SYSLOG = "syslog"
    NGINX = "nginx"
    APACHE = "apache"
    HAPROXY = "haproxy"
    POSTGRESQL = "postgresql"


class UnknownFields(StrEnum):
    """What to do with fields of a line that its topic's schema does not have."""

    KEEP = "keep"
    DROP = "drop"
    DEAD = "dead"


class LongLines(StrEnum):
    """What to do with a line longer than `max_line_bytes`."""

    CUT = "cut"
    DEAD = "dead"


class Archives(StrEnum):
    """What to do with compressed files that were not followed before they were compressed."""

    IGNORE = "ignore"
    READ = "read"


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of one kind, or entries of systemd's journal, and how their lines are processed. Either
    `paths` or `journal` is required."""

    paths: tuple[FilePath, ...] = ()
    """Absolute, with `*`, `?`, `[…]`, and `**` for any number of folders. As in a shell, `*` does
    not match a leading dot. A file that several inputs of a topic match is shipped once; inputs
    with different topics each ship it."""
    topic: str
    """Where its events go. Dead letters go to `{topic}.dead`."""
    journal: SystemJournal | None = None
    name: str = ""
    """The input's name in messages and metrics; must be unique. Files of a renamed input continue
    under the new name, if the topic is the same. Default: the topic."""
    exclude: tuple[str, ...] = ()
    """Files and whole folders to leave out: names (`*.tmp`, `old`), or, with a `/`, paths
    (`/var/log/shop/*`, `shop/debug.log`)."""
    app: str = ""
    """`header.app` of its events. Default: the topic."""
    format: Format = Format.PLAIN
    """The format of lines: [formats](#formats)."""
    pattern: Pattern = ""
    r"""The regular expression of `format: regex`, with named groups: `(?P<level>\w+)`."""
    schema: FilePath = ""
    """An `.avsc` file, registered for the topic if `auto_register` is on. A relative path starts at
    the folder of this file."""
    time: Time | None = None
    encoding: str = "utf-8"
    """Any encoding that Python knows. Invalid bytes become U+FFFD, and are
    [counted](agent-in-detail.md#altered-text)."""
    multiline: Multiline | None = None
    start: str = "beginning"
    """Where to start in files that exist when the input is new: `beginning`, `end`, or a date such
    as `2026-11-20`: files last written before it are skipped, others are read whole. Files that
    appear later are always read from their beginning."""
    ignore_older: Seconds = 0.0
    """Files not modified for this long are not started; 0: no limit."""
    archives: Archives = Archives.IGNORE
    """`read`: compressed files that match (`.gz`, `.bz2`, `.xz`, `.zst`), and whose content was not
    read before, are read once: [backfill](how-to/backfill.md)."""
    max_archive_bytes: Bytes = 64 * 1024 * 1024 * 1024
    """The unpacked size at which reading an archive stops. Reading also stops if the content
    exceeds 1,000 times the size of the archive."""
    max_line_bytes: Bytes = 1024 * 1024
    """A longer line is cut there, or becomes a dead letter: see `long_lines`."""
    long_lines: LongLines = LongLines.CUT
    """`cut`: the rest of the line is skipped, and counted. `dead`: the line becomes a dead letter
    with its beginning."""
    last_line_timeout: Seconds = 5.0
    """A last line without newline is complete when nothing has followed for this long."""
    unknown_fields: UnknownFields = UnknownFields.DROP
    """What to do with fields that the topic's schema does not have: `drop` them, `keep` them as
    text in the schema's field `extra`, which must be a map of strings, or make the line a dead
    letter (`dead`)."""
    filters: tuple[Filter, ...] = ()
    redact: tuple[Redaction, ...] = ()
    add_fields: dict[str, str | int | float | bool] = {}
    """Fields with the same value in every event: `{datacenter: dc1}`."""
    rate_limit: float = 0.0
    """Lines per second; 0: no limit. Lines are delayed, never dropped."""
    partition_by: str = "agent"
    """`agent`, `source`, `random` or `field:NAME`:
    [order and partitions](agent-in-detail.md#order-and-partitions)."""

    def __post_init__(self) -> None:
        if self.journal is None and not self.paths:
            raise ValueError("`paths`, with at least one file or pattern, or `journal` is required")
        if self.journal is not None:
            self._check_journal()
        for key in ("paths", "exclude"):
            for path in getattr(self, key):
                if key == "paths" and not PurePath(path).is_absolute():
                    raise ValueError(f"`{key}`: {path} is not absolute")
        _check_topic(self.topic)
        check_pattern("pattern", self.pattern)
        if (self.format is Format.REGEX) != bool(self.pattern):
            raise ValueError("`pattern` and `format: regex` require each other")
        if self.pattern and not re.compile(self.pattern).groupindex:
            raise ValueError("`pattern` has no named group, such as (?P<level>\\w+)")
        _check_start(self.start)
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"`encoding: {self.encoding}`: unknown encoding") from None
        if self.partition_by not in {"agent", "source", "random"} and not re.fullmatch(
            r"field:\S+", self.partition_by
        ):
            raise ValueError("`partition_by` must be agent, source, random or field:NAME")
        if self.is_plain:
            invalid_key = "partition_by" if self.partition_by.startswith("field:") else ""
            invalid_key = invalid_key or next(
                (key for key in ("time", "add_fields") if getattr(self, key)), ""
            )
            if invalid_key:
                raise ValueError(
                    f"`{invalid_key}` needs fields, which `format: plain` does not have"
                )
        check_positive(self, "max_archive_bytes", "max_line_bytes", "last_line_timeout")
        check_not_negative(self, "ignore_older", "rate_limit")

    def _check_journal(self) -> None:
        file_keys = {"paths": (), "exclude": (), "encoding": "utf-8", "ignore_older": 0.0}
        for key, default in file_keys.items():
            if getattr(self, key) != default:
                raise ValueError(f"`{key}` is for files: leave it out, or `journal`")
        if self.format in {Format.CRI, Format.DOCKER}:
            raise ValueError(
                f"`format: {self.format}` is for files of containers, not for a journal"
            )

    @property
    def is_plain(self) -> bool:
        """Whether its lines have no fields: those of a journal have some."""
        return self.format is Format.PLAIN and self.journal is None

    @property
    def label(self) -> str:
        return self.name or self.topic


def check_distinct(inputs: Iterable[Input], names: Set[str] = frozenset()) -> None:
    """Checks that inputs have distinct labels. `names` are in use already. Raises ValueError."""
    labels = set(names)
    for input_ in inputs:
        if input_.label in labels:
            raise ValueError(f"duplicate input {input_.label}: give each input its own `name`")
        labels.add(input_.label)
    if len(labels) > _MOST_INPUTS:
        raise ValueError(f"{len(labels)} inputs, but the limit is {_MOST_INPUTS}")
