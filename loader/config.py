"""What a loader can be told in its configuration file. Checked when it is loaded, once.

Sizes are in bytes, durations in seconds.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

import msgspec

from client.addresses import Address, check_brokers, parse_addresses
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from schemas.remote.urls import parse_urls
from serving.settings import check_not_negative, check_positive

SETTLE_SECONDS: Final = 900.0  # for topics without Penstock's header, which agents do not write to

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]{0,63}")  # part of file names: no hyphen


def check_cluster_name(key: str, name: str) -> None:
    if not _CLUSTER.fullmatch(name):
        raise ValueError(
            f"`{key}: {name}` is part of file names: letters, digits, `.` and `_`, at most 64"
        )


def _check_name(key: str, name: str) -> None:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        raise ValueError(f"`{key}`: {error}") from None


def _check_audit(url: str) -> None:
    """One URL, or none."""
    if url and len(parse_urls(url)) > 1:
        raise ValueError("one audit knows all clusters")


class FileFormat(StrEnum):
    """How rows are kept."""

    PARQUET = "parquet"
    ORC = "orc"
    JSON = "json"
    AVRO = "avro"  # needs Spark's Avro module on the class path


class Compression(StrEnum):
    """How files are packed; not every format knows every one."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    NONE = "none"


class HeaderColumns(StrEnum):
    """Where the fields of an event's header stand: columns of their own, or in one of structs."""

    FLAT = "flat"
    NESTED = "nested"


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Topics of one schema, of several clusters, that land together, told apart by `_cluster`."""

    topics: dict[str, str]  # topic to the name of the cluster that it came from

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("`topics` must name one topic at least")
        for topic, cluster in self.topics.items():
            _check_name("topics", topic)
            check_cluster_name("topics", cluster)
        if len(set(self.topics.values())) < len(self.topics):
            raise ValueError("`topics`: each needs a cluster name of its own")


class Tasks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the work is divided."""

    records: int = 2_000_000  # offsets that one task reads, about
    memory_bytes: int = 128 * 1024 * 1024  # rows that a task holds back until it writes them
    tables: int = 4  # under way at a time

    def __post_init__(self) -> None:
        check_positive(self, "records", "memory_bytes", "tables")


class Completeness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an hour is called complete, and its files are merged."""

    # After an hour's end, for topics that no agent is known to write to. If it is not given, events
    # are waited for, as their agents may be another cluster's; all else has `SETTLE_SECONDS`.
    settle: float | None = None
    deadline: float = 6 * 3600.0  # after an hour's end: then `_INCOMPLETE` names what is missing
    silent_agents: float = 30 * 86_400.0  # an agent not heard of for so long is not waited for
    merge_below: int = 64 * 1024 * 1024  # files smaller than this are merged when an hour closes
    merge_to: int = 512 * 1024 * 1024

    def __post_init__(self) -> None:
        check_not_negative(self, "deadline", *([] if self.settle is None else ["settle"]))
        check_positive(self, "silent_agents", "merge_below", "merge_to")


class Hive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tables are registered in a Hive metastore that Spark is configured for."""

    database: str = "default"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]{1,128}", self.database):
            raise ValueError("`database` may have letters, digits and `_`, at most 128")


class Spark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the work is done. `conf` is Spark's own configuration, handed on as it is."""

    master: str = "local[*]"
    conf: dict[str, str | int | float | bool] = {}

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.conf.items()
        }


class LoaderConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One loader."""

    root: str  # any Hadoop filesystem: hdfs://, file://, s3a://
    topics: tuple[str, ...] = ()  # names, or patterns such as app.*
    exclude: tuple[str, ...] = ()
    tables: dict[str, Table] = {}
    cluster: str = "local"
    brokers: tuple[str, ...] = ("127.0.0.1:9092",)
    registry: str = "http://127.0.0.1:8081"
    format: FileFormat = FileFormat.PARQUET
    compression: Compression = Compression.ZSTD
    header: HeaderColumns = HeaderColumns.FLAT
    spark: Spark = Spark()
    tasks: Tasks = Tasks()
    completeness: Completeness = Completeness()
    dead_share: float = 0.01  # of a table's records in one run; above it nothing is committed
    duplicate_share: float = 0.5  # the same, of duplicates
    oldest: float = 3_650 * 86_400.0  # before a load's start: events of earlier times are dead
    newest: float = 86_400.0  # after it: those of later ones
    forget_sources: float = 2 * 86_400.0  # after the last load of theirs; with holes, 4 times that
    keep_manifests: int = 100
    ledger: bool = True
    audit: str = ""  # the URL of an audit service, which is asked whether hours are complete
    check_files_hours: int = 48  # landed files are checked for so long; 0: only when asked
    group: str = "penstock-loader"  # under which consumed offsets are told to the brokers
    window: int = 60
    hive: Hive | None = None

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        check_cluster_name("cluster", self.cluster)
        try:
            parse_urls(self.registry)
        except ValueError as error:
            raise ValueError(f"`registry`: {error}") from None
        if not urlsplit(self.root).scheme:
            raise ValueError(
                f"`root: {self.root}` must say which filesystem: hdfs://…, s3a://… or file:///…"
            )
        if not self.topics and not self.tables:
            raise ValueError("give `topics`, or `tables`")
        if any(not each for each in (*self.topics, *self.exclude)):
            raise ValueError("`topics` and `exclude` are names or patterns, none of them empty")
        for name in self.tables:
            _check_name("tables", name)
            if name.startswith("_"):
                raise ValueError(f"`tables: {name}`: names that begin with _ are Penstock's own")
        named = [topic for table in self.tables.values() for topic in table.topics]
        if len(set(named)) < len(named):
            raise ValueError("`tables`: a topic belongs to one table")
        for share in ("dead_share", "duplicate_share"):
            if not 0 <= getattr(self, share) <= 1:
                raise ValueError(f"`{share}` must be between 0 and 1")
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        try:
            _check_audit(self.audit)
        except ValueError as error:
            said = str(error).replace("registry", "the URL", 1)
            raise ValueError(f"`audit`: {said}") from None
        if self.keep_manifests < 10:
            raise ValueError("`keep_manifests` must be 10 at least")
        check_positive(self, "forget_sources", "oldest")
        check_not_negative(self, "newest", "check_files_hours")

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        return parse_addresses(",".join(self.brokers))
