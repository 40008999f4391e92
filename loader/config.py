"""What a loader can be told in its configuration file. Checked when it is loaded, once.

Each key is explained at its field: `penstock keys` and
docs/loader-configuration.md have it from there.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

import msgspec

from client.addresses import check_brokers
from client.bootstrap import Bootstrap
from client.security import Security
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from ground.http_security import HttpSecurity, check_scheme
from ground.settings import (
    Bytes,
    FilePath,
    HostAndPort,
    Seconds,
    Url,
    WholeSeconds,
    check_not_negative,
    check_positive,
)
from schemas.remote.address import RegistryAddress, check_registry
from schemas.remote.urls import parse_urls

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


def _check_audit(url: str, security: HttpSecurity) -> None:
    """One URL, or none."""
    if not url:
        return
    first, *others = parse_urls(url)
    if others:
        raise ValueError("one audit knows all clusters")
    check_scheme(security, first.scheme)


class FileFormat(StrEnum):
    """How rows are kept."""

    PARQUET = "parquet"
    ORC = "orc"
    JSON = "json"
    AVRO = "avro"  # needs Spark's Avro module on the class path


class FileCompression(StrEnum):
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

    topics: dict[str, str]
    """Each topic, with the name of the cluster that it came from."""

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

    records: int = 2_000_000
    """Offsets that one task reads, about."""
    memory_bytes: Bytes = 128 * 1024 * 1024
    """Rows that a task holds back before it writes; however large a partition is, it does not
    take more."""
    tables: int = 4
    """Tables that are under way at a time."""
    without_spark: int = 50_000
    """Records of a table that one load [reads without Spark](#small-loads), whose jobs take
    longer to plan than these to read; 0: Spark reads all."""

    def __post_init__(self) -> None:
        check_positive(self, "records", "memory_bytes", "tables")
        check_not_negative(self, "without_spark")


class CompletenessConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an hour is called complete, and its files are merged."""

    settle: Seconds | None = None
    """After its end an hour is called complete if no agent is known to write to the topic. Without
    it, hours of events are [not complete](loader-in-detail.md#complete-hours) then, as their agents
    may be another cluster's; topics whose schema has no header have 900."""
    deadline: Seconds = 6 * 3600.0
    """After an hour's end `_INCOMPLETE` says what is missing."""
    silent_agents: Seconds = 30 * 86_400.0
    """An agent that was not heard of for so long is not waited for."""
    merge_below: Bytes = 64 * 1024 * 1024
    """Files smaller than this are merged when an hour is complete."""
    merge_to: Bytes = 512 * 1024 * 1024
    """Files are merged into some of about this size."""

    def __post_init__(self) -> None:
        check_not_negative(self, "deadline", *([] if self.settle is None else ["settle"]))
        check_positive(self, "silent_agents", "merge_below", "merge_to")


class Hive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tables are registered in a Hive metastore that Spark is configured for."""

    database: str = "default"
    """The tables' database. It must be there."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]{1,128}", self.database):
            raise ValueError("`database` may have letters, digits and `_`, at most 128")


class Kerberos(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who the loader is to a Hadoop that wants Kerberos: HDFS, YARN, Hive's metastore."""

    principal: str
    """`penstock@EXAMPLE.ORG`."""
    keytab: FilePath
    """The principal's key. Tickets are got with it, and renewed for as long as the loader
    runs."""

    def __post_init__(self) -> None:
        if not self.principal or not self.keytab:
            raise ValueError("`kerberos` needs a `principal` and its `keytab`")


class Spark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the work is done. `conf` is Spark's own configuration, handed on as it is."""

    master: str = "local[*]"
    """`local[*]`, `yarn`, `spark://host:7077`, `k8s://https://host:6443`."""
    conf: dict[str, str | int | float | bool] = {}
    """[Spark's own configuration](#spark-hadoop-and-java), and Hadoop's as `spark.hadoop.*`,
    handed on as it is."""

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.conf.items()
        }


class LoaderConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One loader."""

    root: Url
    """Where files go: `hdfs://namenode:8020/logs`, `s3a://bucket/logs`, `file:///srv/logs`,
    `viewfs:`; others (`abfs:`, `gs:`, `o3fs:` …) are refused, as files must be [created
    atomically](loader-in-detail.md#exactly-once). A table's first load needs a folder without
    files: what is there and in no commit log is not added to. In the ledger a table stays at the
    root by the name that this had with its first load, also if the same place is called otherwise
    later."""
    topics: tuple[str, ...] = ()
    """Names, or patterns (`*`, `?`, `[…]`); each topic becomes a table of its name. A topic
    whose name begins with `_` must be named, and so must a mirror's copy of schemas,
    `dc1._schemas`."""
    exclude: tuple[str, ...] = ()
    """Names or patterns of topics that are not loaded, although `topics` has them."""
    tables: dict[str, Table] = {}
    """Topics that land together, under the table's name: see [topics of several
    clusters](#topics-of-several-clusters)."""
    cluster: str = "local"
    """The cluster's name; stands in file names and in the ledger. Letters, digits, `.` and
    `_`."""
    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Some brokers of the cluster."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """The schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the registry is asked](secure-connections.md#a-registry-behind-locks): TLS, and a
    login."""
    format: FileFormat = FileFormat.PARQUET
    """How rows are kept. `avro` needs Spark's Avro module (`spark.jars.packages`)."""
    compression: FileCompression = FileCompression.ZSTD
    """How files are packed. JSON has no zstd: it gets gzip; Avro has no lz4."""
    header: HeaderColumns = HeaderColumns.FLAT
    """`flat`: `time`, `host`, `app`, `source`, `seq`, `position` are columns; `nested`: one
    column `header`."""
    spark: Spark = Spark()
    kerberos: Kerberos | None = None
    """[Who the loader is to Hadoop](#kerberos), where Hadoop wants Kerberos. Without it: whoever
    has logged in by `kinit`."""
    tasks: Tasks = Tasks()
    completeness: CompletenessConfig = CompletenessConfig()
    dead_share: float = 0.01
    """Of a table's records in one load that may be [dead
    letters](loader-in-detail.md#what-cannot-be-decoded): from 0 to 1; above it nothing is
    committed, if they are `few_dead` or more."""
    few_dead: int = 10
    """Fewer dead letters than this, of a table in one load, stop nothing, whatever share they are:
    one line that somebody has sent by hand holds no quiet table. 0: the share alone decides."""
    duplicate_share: float = 0.5
    """Of a table's records in one load that may be [duplicates](loader-in-detail.md#exactly-once),
    if they are a hundred or more: from 0 to 1; above it nothing is committed."""
    oldest: Seconds = 3_650 * 86_400.0
    """Before the load's start: rows of earlier times are dead letters."""
    newest: Seconds = 86_400.0
    """After the load's start: rows of later times are dead letters too. Producers with a wrong
    clock or unit make no folders for years that are not there."""
    forget_sources: Seconds = 2 * 86_400.0
    """After something of it was last loaded, a source without holes is not looked out for any
    more; one with holes after four times that."""
    keep_manifests: int = 100
    """Manifests that are kept of each table: 10 at least."""
    ledger: bool = True
    """Whether what was loaded is told on `_audit`."""
    audit: Url = ""
    """The URL of [an audit service](audit.md), such as `http://audit:8090`: [complete
    hours](loader-in-detail.md#complete-hours) are what it says. Without it, agents' heartbeats
    decide."""
    audit_security: HttpSecurity = HttpSecurity()
    """Requests to an audit with [TLS and logins](audit-configuration.md#tls-and-logins)."""
    check_files_hours: int = 48
    """Hours that are younger than so many, or were changed within that time, have their [files
    checked](loader-failures.md#checking-files) by each load; 0: only with `--check-files`."""
    check_files_bytes: Bytes = 256 * 1024 * 1024
    """So much of what lies in these hours, and seems untouched, has its content compared with its
    checksum by each load, in turn; what was modified always has."""
    group: str = "penstock-loader"
    """The consumer group under which brokers are told how far it is, for Kafka's own tools."""
    window: WholeSeconds = 60
    """Of event time, in the ledger; as the agents have it."""
    hive: Hive | None = None
    """The tables are registered in a Hive metastore that Spark is configured for, if `hive: {}` is
    there at all: see [Hive](#hive)."""

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        check_cluster_name("cluster", self.cluster)
        check_registry(self.registry, self.registry_security)
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
        self._check_kerberos()
        for share in ("dead_share", "duplicate_share"):
            if not 0 <= getattr(self, share) <= 1:
                raise ValueError(f"`{share}` must be between 0 and 1")
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        try:
            _check_audit(self.audit, self.audit_security)
        except ValueError as error:
            said = str(error).replace("registry", "the URL", 1)
            raise ValueError(f"`audit`: {said}") from None
        if self.keep_manifests < 10:
            raise ValueError("`keep_manifests` must be 10 at least")
        check_positive(self, "forget_sources", "oldest")
        check_not_negative(self, "newest", "check_files_hours", "check_files_bytes", "few_dead")

    def _check_kerberos(self) -> None:
        if self.kerberos is None:
            return
        if self.spark.master.startswith("spark://"):
            raise ValueError(
                "`kerberos`: Spark's standalone clusters hand their executors nothing to write "
                "with; use YARN, Kubernetes or `local[*]`"
            )
        for key in ("spark.kerberos.principal", "spark.kerberos.keytab"):
            if key in self.spark.conf:
                raise ValueError(f"`kerberos` says it: take `{key}` out of `spark.conf`")

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)
