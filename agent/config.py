"""What an agent can be told in its configuration files. Checked when they are loaded, once.

Sizes are in bytes, durations in seconds. An input that is wrong in itself is refused here; whether
it fits the schema of its topic is seen when the registry is asked.
"""

import codecs
import re
import socket
from collections.abc import Iterable, Set
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from client.addresses import Address, check_brokers, parse_addresses
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC
from schemas.remote.urls import parse_urls
from serving.exposure import check_exposed
from serving.settings import check_not_negative, check_positive

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


def _check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`{name}` is no regular expression: {error}") from None


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
    """What becomes of fields of a line that its topic's schema does not have.

    `keep` puts them into the schema's field `extra`, a map of strings, and needs one there.
    """

    KEEP = "keep"
    DROP = "drop"
    DEAD = "dead"


class LongLines(StrEnum):
    """What becomes of a line beyond `max_line_bytes`."""

    CUT = "cut"
    DEAD = "dead"


class Compression(StrEnum):
    """How batches are packed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Time(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an event says when it happened. Without it, that is when its line was read."""

    field: str
    format: str = "iso8601"  # or epoch, epoch_ms, epoch_us, epoch_ns, rfc3164, or strptime's
    zone: str = "UTC"  # of times that do not say it themselves

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

    start: str = ""  # a line that matches begins an event
    continuation: str = ""  # a line that matches belongs to the event before
    indentation: bool = False  # a line that begins with white space belongs to the event before
    timeout: float = 2.0  # after so long without more, the event is complete
    max_lines: int = 500

    def __post_init__(self) -> None:
        if bool(self.start) + bool(self.continuation) + self.indentation != 1:
            raise ValueError("give exactly one of `start`, `continuation`, `indentation: true`")
        for name in ("start", "continuation"):
            _check_pattern(name, getattr(self, name))
        check_positive(self, "timeout", "max_lines")


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events are shipped. The first filter that applies decides; without one, an event is.

    A filter applies where its pattern is found: in the field, or in the whole line. `sample` ships
    one event in so many, by a digest of the line: the same line always meets the same fate.
    """

    name: str = ""
    drop: str = ""
    keep: str = ""  # what does not match is dropped
    field: str = ""
    sample: int = 0
    match: str = ""  # to which lines `sample` applies; all, if empty

    def __post_init__(self) -> None:
        if bool(self.drop) + bool(self.keep) + bool(self.sample) != 1:
            raise ValueError("give exactly one of `drop`, `keep`, `sample`")
        if self.match and not self.sample:
            raise ValueError("`match` belongs to `sample`")
        if self.sample and self.sample < 2:
            raise ValueError("`sample` must be 2 at least: one line in so many is shipped")
        for name in ("drop", "keep", "match"):
            _check_pattern(name, getattr(self, name))


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must not leave this host: replaced, or by `hash` made into a keyed digest."""

    pattern: str
    replacement: str = ""
    hash: bool = False
    key: str = ""  # of the digest; `key_file` names a file that holds it

    def __post_init__(self) -> None:
        _check_pattern("pattern", self.pattern)
        if not self.pattern or re.compile(self.pattern).match(""):
            raise ValueError("`pattern` must match something, and never nothing")
        if self.hash and self.replacement:
            raise ValueError("give `replacement` or `hash: true`, not both")
        if self.hash != bool(self.key):
            raise ValueError(
                "`hash: true` and `key` belong together: without a key, digests can be guessed back"
            )


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of one kind, and what becomes of their lines."""

    paths: tuple[str, ...]
    topic: str
    name: str = ""  # in messages and metrics; the topic, if empty
    exclude: tuple[str, ...] = ()
    app: str = ""  # `header.app`; the topic, if empty
    format: Format = Format.PLAIN
    pattern: str = ""  # of `format: regex`, with named groups
    schema: str = ""  # a file, to be registered where `auto_register` is on
    time: Time | None = None
    encoding: str = "utf-8"
    multiline: Multiline | None = None
    start: str = "beginning"  # or end, or a date: of files that are there when this input is new
    ignore_older: float = 0.0  # files untouched for so long are not begun; 0: none is too old
    max_line_bytes: int = 1024 * 1024
    long_lines: LongLines = LongLines.CUT
    last_line_timeout: float = 5.0  # a last line without newline is complete after so long
    unknown_fields: UnknownFields = UnknownFields.DROP
    filters: tuple[Filter, ...] = ()
    redact: tuple[Redaction, ...] = ()
    add_fields: dict[str, str | int | float | bool] = {}
    rate_limit: float = 0.0  # lines a second; 0: no limit
    partition_by: str = "agent"  # or source, random, field:NAME

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("`paths` must name one file or pattern at least")
        for key in ("paths", "exclude"):
            for path in getattr(self, key):
                if key == "paths" and not PurePath(path).is_absolute():
                    raise ValueError(f"`{key}`: {path} is not absolute")
        _check_topic(self.topic)
        _check_pattern("pattern", self.pattern)
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


class Batches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How lines are packed."""

    bytes: int = 1024 * 1024  # before compression
    linger: float = 0.1  # how long a line waits for others
    compression: Compression = Compression.ZSTD

    def __post_init__(self) -> None:
        if not 1024 <= self.bytes <= 64 * 1024 * 1024:
            raise ValueError("`bytes` must be between 1024 and 67108864")
        if not 0 <= self.linger <= 60:
            raise ValueError("`linger` must be between 0 and 60")


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent may use of its host."""

    in_flight_bytes: int = 16 * 1024 * 1024  # batches that are not acknowledged yet
    open_files: int = 1_024
    cpu: float = 0.0  # cores; 0: no limit
    memory_bytes: int = 0  # the process; 0: no limit
    journal_bytes: int = 64 * 1024 * 1024  # after which the journal begins anew

    def __post_init__(self) -> None:
        check_positive(self, "in_flight_bytes", "open_files", "journal_bytes")
        check_not_negative(self, "cpu", "memory_bytes")


class HoldDeleted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of deleted files is held open for what was not read yet."""

    bytes: int = 1024 * 1024 * 1024
    seconds: float = 3600.0

    def __post_init__(self) -> None:
        check_not_negative(self, "bytes", "seconds")


class Times(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which times are believed, from now. What lies outside is put on the bound, and counted."""

    oldest: float = 400 * 86_400.0
    newest: float = 3600.0

    def __post_init__(self) -> None:
        check_positive(self, "oldest", "newest")


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent."""

    inputs: tuple[Input, ...] = ()
    inputs_dir: str = ""
    cluster: str = "local"
    brokers: tuple[str, ...] = ("127.0.0.1:9092",)
    registry: str = "http://127.0.0.1:8081"
    auto_register: bool = False
    data_dir: str = "penstock-data/agent"
    host: str = ""  # `header.host`; this machine's name, if empty
    http_host: str = "127.0.0.1"
    http_port: int = 9464
    insecure: bool = False
    scan_interval: float = 5.0  # between looks at everything, whatever inotify says
    batches: Batches = Batches()
    limits: Limits = Limits()
    hold_deleted: HoldDeleted = HoldDeleted()
    times: Times = Times()
    journal_sync: bool = False
    ledger: bool = True
    ledger_interval: float = 10.0
    window: int = 60
    drain: float = 20.0  # how long SIGTERM waits for acknowledgements

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        try:
            parse_urls(self.registry)
        except ValueError as error:
            raise ValueError(f"`registry`: {error}") from None
        if not self.inputs and not self.inputs_dir:
            raise ValueError("give `inputs`, or `inputs_dir` with a file for each application")
        check_distinct(self.inputs)
        if not 0 <= self.http_port < 65536:
            raise ValueError("`http_port` must be between 0 and 65535")
        check_exposed("http_host", self.http_host, insecure=self.insecure)
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        check_positive(self, "scan_interval", "ledger_interval")
        check_not_negative(self, "drain")

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        return parse_addresses(",".join(self.brokers))

    @property
    def host_name(self) -> str:
        return self.host or socket.gethostname()


def check_distinct(inputs: Iterable[Input], names: Set[str] = frozenset()) -> None:
    """Raises ValueError if two inputs cannot be told from each other. `names` are taken already."""
    found = set(names)
    for each in inputs:
        if each.label in found:
            raise ValueError(f"two inputs are called {each.label}: give each a `name` of its own")
        found.add(each.label)
    if len(found) > _MOST_INPUTS:
        raise ValueError(f"{len(found)} inputs are more than {_MOST_INPUTS}")
