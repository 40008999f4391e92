"""The loader's configuration file, checked once when it is loaded.

The docstring of each field is its explanation in `penstock keys` and docs/loader-configuration.md.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

import msgspec

from client.connection.addresses import check_brokers
from client.connection.bootstrap import Bootstrap
from client.connection.security import Security
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from ground.http.security import HttpSecurity, check_scheme
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

SETTLE_SECONDS: Final = 900.0  # for topics without Penstock's header: agents do not write to them

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]{0,63}")  # part of file names: no hyphen


def check_cluster_name(key: str, name: str) -> None:
    if not _CLUSTER.fullmatch(name):
        raise ValueError(
            f"`{key}: {name}` is part of file names: use at most 64 letters, digits, `.` and `_`"
        )


def _check_name(key: str, name: str) -> None:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        raise ValueError(f"`{key}`: {error}") from None


def _check_audit(url: str, security: HttpSecurity) -> None:
    """Accepts one URL, or none."""
    if not url:
        return
    first_url, *other_urls = parse_urls(url)
    if other_urls:
        raise ValueError("must be one URL: a single audit covers all clusters")
    check_scheme(security, first_url.scheme)


class FileFormat(StrEnum):
    """The format of the rows' files."""

    PARQUET = "parquet"
    ORC = "orc"
    JSON = "json"
    AVRO = "avro"  # needs Spark's Avro module on the class path


class FileCompression(StrEnum):
    """The compression of files; formats support some of these."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    NONE = "none"


class CertificateMode(StrEnum):
    """Whether complete hours get certificates, if an audit is configured."""

    TRY = "try"  # with the hour if the audit signs it, otherwise by a later load
    REQUIRED = "required"  # an hour without one stays open
    OFF = "off"


class HeaderColumns(StrEnum):
    """The columns of an event's header: separate ones, or a single struct."""

    FLAT = "flat"
    NESTED = "nested"


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Topics of the same schema from several clusters that land in one table, distinguished by
    `_cluster`."""

    topics: dict[str, str]
    """The topics, each with the name of the cluster that it comes from."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("`topics` must name at least one topic")
        for topic, cluster in self.topics.items():
            _check_name("topics", topic)
            check_cluster_name("topics", cluster)
        if len(set(self.topics.values())) < len(self.topics):
            raise ValueError("`topics`: two topics have the same cluster name")


class Tasks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The division of a load into tasks."""

    records: int = 2_000_000
    """The approximate number of offsets that one task reads."""
    memory_bytes: Bytes = 128 * 1024 * 1024
    """The memory for rows that a task has not written yet, however large the partition is."""
    tables: int = 4
    """The number of tables that are loaded at a time."""
    without_spark: int = 50_000
    """Up to this many records of a table, a load [reads them without Spark](#small-loads),
    whose jobs would take longer to plan than to run; 0: always with Spark."""

    def __post_init__(self) -> None:
        check_positive(self, "records", "memory_bytes", "tables")
        check_not_negative(self, "without_spark")


class CompletenessConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for declaring an hour complete, and for merging its files."""

    settle: Seconds | None = None
    """If no agent is known to write to the topic, an hour is complete this long after its end.
    Default: hours with events stay [incomplete](loader-in-detail.md#complete-hours) then, since
    their agents may belong to another cluster; 900 for topics whose schema has no header."""
    deadline: Seconds = 6 * 3600.0
    """The time after an hour's end when `_INCOMPLETE` is written, which lists what is missing."""
    silent_agents: Seconds = 30 * 86_400.0
    """Agents without a sign of life for this long are not waited for."""
    merge_below: Bytes = 64 * 1024 * 1024
    """When an hour is complete, files smaller than this are merged."""
    merge_to: Bytes = 512 * 1024 * 1024
    """The approximate size of merged files."""
    merge_open_above: int = 64
    """When an hour has ended, but is not complete, a load merges its files smaller than
    `merge_below` [if they are more than this](loader-in-detail.md#small-files); 0: never."""

    def __post_init__(self) -> None:
        check_not_negative(
            self, "deadline", "merge_open_above", *([] if self.settle is None else ["settle"])
        )
        check_positive(self, "silent_agents", "merge_below", "merge_to")


class Hive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The registration of tables in the Hive metastore that Spark is configured for."""

    database: str = "default"
    """The tables' database, which must exist."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]{1,128}", self.database):
            raise ValueError("`database`: use at most 128 letters, digits and `_`")


class Kerberos(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loader's identity for a Hadoop with Kerberos: HDFS, YARN, Hive's metastore."""

    principal: str
    """The principal's name, `penstock@EXAMPLE.ORG`."""
    keytab: FilePath
    """The principal's key. Tickets are obtained with it, and renewed while the loader runs."""

    def __post_init__(self) -> None:
        if not self.principal or not self.keytab:
            raise ValueError("`kerberos` needs a `principal` and its `keytab`")


class Spark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of Spark, and the cluster where it runs."""

    master: str = "local[*]"
    """The cluster: `local[*]`, `yarn`, `spark://host:7077`, `k8s://https://host:6443`."""
    conf: dict[str, str | int | float | bool] = {}
    """[Spark's own configuration](#spark-hadoop-and-java), and Hadoop's as `spark.hadoop.*`,
    passed on unchanged."""
    staged: Url = ""
    """For YARN: the folder on HDFS that `penstock load --stage-spark` copies Spark's jars into, so
    that [loads do not upload them](#what-a-load-on-yarn-uploads): `hdfs:///apps/penstock`."""

    def __post_init__(self) -> None:
        if self.staged and self.master != "yarn":
            raise ValueError("`spark.staged` is of use with `master: yarn` only: remove it")
        if self.staged and urlsplit(self.staged).scheme not in {"hdfs", "viewfs"}:
            raise ValueError(f"`spark.staged: {self.staged}` must be a URL: hdfs://… or viewfs://…")
        if str(self.conf.get("spark.submit.deployMode", "client")).lower() != "client":
            raise ValueError(
                "`spark.conf`: a load runs in client mode only, since `penstock load` is Spark's "
                "driver: remove `spark.submit.deployMode`. To start loads from a cluster, let its "
                "scheduler start `penstock load` on a host with this configuration"
            )

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.conf.items()
        }


class LoaderConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one loader."""

    root: Url
    """The folder of all files: `hdfs://namenode:8020/logs`, `s3a://bucket/logs`,
    `file:///srv/logs`, `viewfs:`. Others (`abfs:`, `gs:`, `o3fs:` …) are rejected, since files must
    be [created atomically](loader-in-detail.md#exactly-once). A table's first load fails if its
    folder already has files. The ledger keeps the root's name at a table's first load, even if the
    same folder gets another name later."""
    topics: tuple[str, ...] = ()
    """Names or patterns (`*`, `?`, `[…]`); each topic becomes a table of the same name. Patterns
    do not match topics whose names begin with `_`, nor a mirror's copy of schemas,
    `dc1._schemas`: these must be named in full."""
    exclude: tuple[str, ...] = ()
    """Names or patterns of topics that are not loaded although they match `topics`."""
    tables: dict[str, Table] = {}
    """Tables that several topics land in, by name: see [topics of several
    clusters](#topics-of-several-clusters)."""
    cluster: str = "local"
    """The cluster's name, used in file names and in the ledger: letters, digits, `.` and `_`."""
    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Bootstrap servers: some brokers of the cluster."""
    security: Security = Security()
    """[The connection to the brokers](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """The schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[The connection to the registry](secure-connections.md#a-registry-with-logins): TLS, and a
    login."""
    format: FileFormat = FileFormat.PARQUET
    """The file format. `avro` needs Spark's Avro module (`spark.jars.packages`)."""
    compression: FileCompression = FileCompression.ZSTD
    """The compression of files. JSON has no zstd and gets gzip instead; Avro has no lz4."""
    header: HeaderColumns = HeaderColumns.FLAT
    """`flat`: columns `time`, `host`, `app`, `source`, `seq`, `position`; `nested`: one column
    `header`."""
    spark: Spark = Spark()
    kerberos: Kerberos | None = None
    """[The loader's identity](#kerberos) for a Hadoop with Kerberos. Default: that of the user who
    logged in by `kinit`."""
    tasks: Tasks = Tasks()
    completeness: CompletenessConfig = CompletenessConfig()
    dead_share: float = 0.01
    """The share of a table's records in one load that may be [dead
    letters](loader-in-detail.md#what-cannot-be-decoded), from 0 to 1. Above it nothing is
    committed, if there are at least `few_dead`."""
    few_dead: int = 10
    """Fewer dead letters than this, of a table in one load, are always accepted, so that one
    record sent by hand does not stop a quiet table. 0: only the share counts."""
    duplicate_share: float = 0.5
    """The share of a table's records in one load that may be
    [duplicates](loader-in-detail.md#exactly-once), from 0 to 1. Above it nothing is committed, if
    there are at least a hundred."""
    oldest: Seconds = 3_650 * 86_400.0
    """Rows older than this, at the load's start, become dead letters."""
    newest: Seconds = 86_400.0
    """Rows further in the future than this, at the load's start, become dead letters, so that a
    producer's wrong clock or unit creates no folders for distant years."""
    forget_sources: Seconds = 2 * 86_400.0
    """The time after which duplicates of a source that had no new events are not recognized any
    more. Four times as long if numbers of the source are missing."""
    keep_manifests: int = 100
    """The number of manifests to keep of each table, at least 10. Earlier ones on which these build
    are kept as well."""
    ledger: bool = True
    """Whether loads are reported in `_audit`."""
    started_every: Seconds = 0.0
    """The time from one load to the next where something else starts them, such as a timer of
    systemd or Airflow. With it, the audit raises an [alert](how-to/alerts.md) when loads stop.
    `--every` takes its place. 0: unknown."""
    audit: Url = ""
    """The URL of [an audit service](audit.md), such as `http://audit:8090`, which decides which
    [hours are complete](loader-in-detail.md#complete-hours). Default: the agents' heartbeats
    decide."""
    audit_security: HttpSecurity = HttpSecurity()
    """The connection to the audit: [TLS and login](audit-configuration.md#tls-and-logins)."""
    certificates: CertificateMode = CertificateMode.TRY
    """Whether complete hours get [certificates](loader-in-detail.md#certificates), which `audit`
    signs. `try`: an hour is complete without, and a later load makes the certificate, within seven
    days; `required`: an hour stays open until the audit has signed it; `off`: none are made."""
    signing_key: FilePath = ""
    """The file of the loader's [signing key](loader-in-detail.md#the-signing-key), which the first
    load makes. Hosts that load the same tables need the same key. Default:
    `penstock/loader/signing-key` in `$XDG_STATE_HOME`, or in `~/.local/state`."""
    audit_key: FilePath = ""
    """The file of the audit's public key, `signing-key.pub` in its `data_dir`: certificates that
    another key has signed are rejected. Default: any key is accepted."""
    check_files_hours: int = 48
    """Each load [checks the files](loader-failures.md#checking-files) of hours that are younger
    than this many hours or changed within that time; 0: only with `--check-files`."""
    check_files_bytes: Bytes = 256 * 1024 * 1024
    """In these hours, each load compares the content of modified files with their checksums, and
    of up to this much of the unmodified ones, in turn: of those compared within an hour, up to
    16 MiB; none of those compared within a day on HDFS and other filesystems that store
    checksums."""
    upgrade_bytes: Bytes = 256 * 1024 * 1024
    """When a table's columns change, the load rewrites its older hours [to one
    schema](loader-in-detail.md#one-schema), if they are at most 48 and have at most this much in
    all; otherwise they wait for `--upgrade-schema`. 0: they always wait."""
    group: str = "penstock-loader"
    """The consumer group of committed offsets, so that Kafka's tools show the loader's lag."""
    window: WholeSeconds = 60
    """The window of event time in the ledger; must equal the agents' setting."""
    hive: Hive | None = None
    """Registers the tables in the Hive metastore that Spark is configured for; `hive: {}` is
    enough: see [Hive](#hive)."""

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        check_cluster_name("cluster", self.cluster)
        check_registry(self.registry, self.registry_security)
        if not urlsplit(self.root).scheme:
            raise ValueError(f"`root: {self.root}` must be a URL: hdfs://…, s3a://… or file:///…")
        if not self.topics and not self.tables:
            raise ValueError("`topics` or `tables` is required")
        if any(not name for name in (*self.topics, *self.exclude)):
            raise ValueError("`topics` and `exclude` must not contain empty names")
        for name in self.tables:
            _check_name("tables", name)
            if name.startswith("_"):
                raise ValueError(f"`tables: {name}`: names that begin with _ are reserved")
        topics = [topic for table in self.tables.values() for topic in table.topics]
        if len(set(topics)) < len(topics):
            raise ValueError("`tables`: a topic is in two tables")
        self._check_kerberos()
        for share in ("dead_share", "duplicate_share"):
            if not 0 <= getattr(self, share) <= 1:
                raise ValueError(f"`{share}` must be between 0 and 1")
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        try:
            _check_audit(self.audit, self.audit_security)
        except ValueError as error:
            reason = str(error).replace("registry", "the URL", 1)
            raise ValueError(f"`audit`: {reason}") from None
        if self.certificates is CertificateMode.REQUIRED and not (self.audit and self.ledger):
            raise ValueError("`certificates: required` needs `audit`, and not `ledger: false`")
        if self.keep_manifests < 10:
            raise ValueError("`keep_manifests` must be at least 10")
        check_positive(self, "forget_sources", "oldest")
        check_not_negative(self, "newest", "check_files_hours", "check_files_bytes", "few_dead")
        check_not_negative(self, "started_every", "upgrade_bytes")

    def _check_kerberos(self) -> None:
        if self.kerberos is None:
            return
        if self.spark.master.startswith("spark://"):
            raise ValueError(
                "`kerberos`: Spark's standalone clusters do not pass tickets to executors; use "
                "YARN, Kubernetes or `local[*]`"
            )
        for key in ("spark.kerberos.principal", "spark.kerberos.keytab"):
            if key in self.spark.conf:
                raise ValueError(f"`kerberos` replaces `{key}`: remove it from `spark.conf`")

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)
