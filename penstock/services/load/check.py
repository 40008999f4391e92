"""`penstock check-config loader`: reports the tables that a loader would load, and problems.

With `--spark`, Spark is started and creates files below the root, as in a load. Without it, only a
root on this machine is checked. In a root that is checked, so are the columns of existing tables.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError
from ground.logins.kerberos import why_unreadable
from ledger.names import LEDGER_TOPIC
from loader.commit.commit_log import CommitLog
from loader.config import LoaderConfig
from loader.errors import LoaderError
from loader.hours.audit import Audit
from loader.planning.table_selection import tables_of
from loader.rewriting.row_format import check_format, codec
from loader.run.table_form import form_of, next_form, renamings, table_columns
from loader.spark.java_classes import JavaClasses, classes_directory
from loader.store.filesystems import check_scheme
from loader.store.local import LocalStore
from loader.store.opening import open_store
from loader.store.store import Store
from loader.values.tables import Hour, SourceTopic, TableSource
from penstock.connections.reachability import (
    SECONDS,
    answering_broker,
    registry_failure,
    registry_within,
)
from penstock.services.checks.findings import print_section
from penstock.services.checks.locks_check import broken_locks
from penstock.services.load.spark import SparkJvm, check_spark
from schemas.errors import RegistryError
from schemas.registry_client import RegistryClient


class ColumnCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A column with Spark's name of its type."""

    name: str
    type: str


class FeedingTopicCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a table. `partitions` is 0 if the topic does not exist or was not looked up."""

    name: str
    cluster: str
    partitions: int = 0
    version: int = -1
    id: int = -1  # of the latest version of its schema


class TableConfigCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One table. Any of its `problems` would prevent loading it."""

    name: str
    topics: tuple[FeedingTopicCheck, ...]
    schema: str = ""
    columns: tuple[ColumnCheck, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class LoaderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The report. `problems` are those of the loader as a whole; tables have their own."""

    tables: tuple[TableConfigCheck, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    def all_problems(self) -> list[str]:
        tables = [f"table {table.name}: {text}" for table in self.tables for text in table.problems]
        return [*self.problems, *tables]

    def all_remarks(self) -> list[str]:
        tables = [f"table {table.name}: {text}" for table in self.tables for text in table.remarks]
        return [*tables, *self.remarks]


def check_loader(config: LoaderConfig, *, offline: bool, with_spark: bool) -> LoaderCheck:
    """Checks the configuration and, unless `offline`, brokers, registry and audit."""
    problems = [*_here(config), *broken_locks(config)]
    remarks: list[str] = []
    metadata: ClusterMetadata | None = None
    if not offline:
        try:
            with Brokers(answering_broker(config.bootstrap), patience_seconds=SECONDS) as brokers:
                metadata = brokers.persist(lambda: brokers.refresh(None))
        except ClientError as error:
            problems.append(f"topics are not checked: {error}")
    tables: tuple[TableSource, ...] = ()
    try:
        tables = tables_of(config, _names(metadata))
    except LoaderError as error:
        problems.append(str(error))
    else:
        if metadata is not None and not tables:
            problems.append("no topic matches `topics`")
    checks = [_without_schema(table, metadata) for table in tables]
    with ExitStack() as stack:
        store: Store | None = None
        try:
            store = _opened_with_spark(config, stack) if with_spark else _local_store(config)
        except LoaderError as error:
            problems.append(str(error))
        if not offline:
            try:
                checks = _with_columns(config, tables, checks, store)
            except RegistryError as error:
                reason = registry_failure(error, config.registry_address.urls)
                problems.append(f"schemas are not checked: {reason}")
    if config.audit and not offline:
        problems += _audit(config)
    elif metadata is not None and config.ledger and not metadata.has(LEDGER_TOPIC):
        remarks.append(_without_ledger(config.completeness.settle))
    if not with_spark and urlsplit(config.root).scheme != "file":
        remarks.append("the root is not checked: --spark starts Spark and creates files there")
    return LoaderCheck(tables=tuple(checks), problems=tuple(problems), remarks=tuple(remarks))


def _here(config: LoaderConfig) -> Iterator[str]:
    """Yields problems on this machine."""
    try:
        check_spark()
        codec(config.format, config.compression)
    except LoaderError as error:
        yield str(error)
    if config.kerberos is not None and (reason := why_unreadable(config.kerberos.keytab)):
        yield reason
    root = urlsplit(config.root)
    try:
        if root.scheme != "file":
            check_scheme(root.scheme, config.root)
    except LoaderError as error:
        yield str(error)
    if root.scheme == "file":
        path = Path(root.path)
        folder = next(folder for folder in (path, *path.parents) if folder.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            yield f"`root: {config.root}`: {folder} is not a writable folder"


def _audit(config: LoaderConfig) -> Iterator[str]:
    """Yields a problem if the audit does not answer."""
    audit = Audit(config.audit, config.cluster, security=config.audit_security, seconds=SECONDS)
    audit.ask([("any", Hour(0))])
    if audit.away is not None:
        yield f"hours would wait for {audit.away.missing}"


def _without_ledger(settle: float | None) -> str:
    cause = f"there is no topic {LEDGER_TOPIC}, so"
    if settle is None:
        return f"{cause} no hour of events becomes complete unless `completeness.settle` is set"
    return f"{cause} an hour is complete {settle:g} s after its end"


def _names(metadata: ClusterMetadata | None) -> list[str]:
    return [] if metadata is None else [name for name in metadata.topics if metadata.has(name)]


def _without_schema(table: TableSource, metadata: ClusterMetadata | None) -> TableConfigCheck:
    """The report on a table without its schema."""
    missing_topics = [
        f"topic {source.topic} does not exist yet"
        for source in table.topics
        if metadata is not None and not metadata.has(source.topic)
    ]

    def topic(source: SourceTopic) -> FeedingTopicCheck:
        exists = metadata is not None and metadata.has(source.topic)
        partitions = len(metadata.topic(source.topic).partitions) if metadata and exists else 0
        return FeedingTopicCheck(name=source.topic, cluster=source.cluster, partitions=partitions)

    topics = tuple(map(topic, table.topics))
    return TableConfigCheck(name=table.name, topics=topics, remarks=tuple(missing_topics))


def _with_columns(
    config: LoaderConfig,
    tables: tuple[TableSource, ...],
    checks: list[TableConfigCheck],
    store: Store | None,
) -> list[TableConfigCheck]:
    """Adds schemas and columns. Raises RegistryError if the registry does not answer."""
    with registry_within(config.registry_address) as registry:
        return [
            _resolved(config, registry, table, check, store)
            for table, check in zip(tables, checks, strict=True)
        ]


def _resolved(
    config: LoaderConfig,
    registry: RegistryClient,
    table: TableSource,
    check: TableConfigCheck,
    store: Store | None,
) -> TableConfigCheck:
    try:
        table_schema = table_columns(registry, table, config.header)
        former = None if store is None else form_of(CommitLog(store, table.name).latest())
        form = next_form(
            table.name, former, table_schema.columns, config.format, table_schema.latest
        )
    except LoaderError as error:
        problem = str(error).removeprefix(f"table {table.name}: ")
        return msgspec.structs.replace(check, problems=(problem,))
    fields = json.loads(form.columns)["fields"][: len(table_schema.columns.arrow)]
    columns = [ColumnCheck(name=field["name"], type=type_text(field["type"])) for field in fields]
    remarks = [*check.remarks, *table_schema.warnings, *renamings(former, form)]
    if not table_schema.columns.has_header:
        remarks.append("its events have no header, so duplicates cannot be recognized")
    return msgspec.structs.replace(
        check,
        topics=tuple(_latest(registry, topic) for topic in check.topics),
        schema=table_schema.schema.full_name or "",
        columns=tuple(columns),
        remarks=tuple(remarks),
    )


def _latest(registry: RegistryClient, topic: FeedingTopicCheck) -> FeedingTopicCheck:
    latest_schema = registry.latest(f"{topic.name}-value")
    if latest_schema is None:
        return topic
    return msgspec.structs.replace(topic, version=latest_schema.version, id=latest_schema.id)


def type_text(type_: Any) -> str:
    """Converts a type in Spark's JSON to text: `array<long>`, `struct<a:string,b:long>`."""
    if isinstance(type_, str):
        return type_
    match type_["type"]:
        case "array":
            return f"array<{type_text(type_['elementType'])}>"
        case "map":
            return f"map<{type_text(type_['keyType'])},{type_text(type_['valueType'])}>"
    fields = (f"{field['name']}:{type_text(field['type'])}" for field in type_["fields"])
    return f"struct<{','.join(fields)}>"


def _local_store(config: LoaderConfig) -> Store | None:
    """The store of a root on this machine."""
    return LocalStore(config.root) if urlsplit(config.root).scheme == "file" else None


def _opened_with_spark(config: LoaderConfig, stack: ExitStack) -> Store:
    """The store, open as long as the stack. Raises LoaderError if Spark has a problem with the root
    or the format."""
    jvm = stack.enter_context(
        SparkJvm(config, JavaClasses(classes_directory(os.environ), makes=False))
    )
    spark = jvm.start(None)
    stack.callback(spark.end)
    check_format(config.format, config.compression, spark.check_avro)
    store = open_store(config.root, spark.store)
    store.prove()
    return store


def show_report(report: LoaderCheck) -> None:
    """Prints the tables and their columns."""
    topics = [
        {
            "table": table.name,
            "topic": topic.name,
            "cluster": topic.cluster,
            "partitions": topic.partitions or None,
            "schema": f"{table.schema} v{topic.version} (id {topic.id})" if topic.id >= 0 else None,
        }
        for table in report.tables
        for topic in table.topics
    ]
    print_section(("table", "topic", "cluster", "partitions", "schema"), topics)
    columns = [
        {"table": table.name, "column": column.name, "type": column.type}
        for table in report.tables
        for column in table.columns
    ]
    print_section(("table", "column", "type"), columns)
