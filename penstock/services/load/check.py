"""`penstock check-config loader`: what a loader would load, asked of brokers and registry.

With `--spark` Spark is started, too, and creates files below the root as a load must. Without it
only a root on this machine is checked.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError
from ground.logins.kerberos import why_unreadable
from ledger.names import LEDGER_TOPIC
from loader.config import LoaderConfig
from loader.errors import LoaderError
from loader.hours.audit import Audit
from loader.planning.table_selection import tables_of
from loader.rewriting.row_format import check_format, codec
from loader.run.table_form import table_columns
from loader.spark.java_classes import JavaClasses, classes_directory
from loader.store.filesystems import check_scheme
from loader.store.opening import open_store
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
    """A column, with its type as Spark calls it."""

    name: str
    type: str


class FeedingTopicCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What feeds a table; `partitions` is 0 while the topic does not exist, or nobody was asked."""

    name: str
    cluster: str
    partitions: int = 0
    version: int = -1
    id: int = -1  # of the latest version of its schema


class TableConfigCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One table. `problems` are what would keep it from being loaded."""

    name: str
    topics: tuple[FeedingTopicCheck, ...]
    schema: str = ""
    columns: tuple[ColumnCheck, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class LoaderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`problems` are what keeps the whole from working; each table has its own."""

    tables: tuple[TableConfigCheck, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    def all_problems(self) -> list[str]:
        tables = [f"table {each.name}: {why}" for each in self.tables for why in each.problems]
        return [*self.problems, *tables]

    def all_remarks(self) -> list[str]:
        tables = [f"table {each.name}: {remark}" for each in self.tables for remark in each.remarks]
        return [*tables, *self.remarks]


def check_loader(config: LoaderConfig, *, offline: bool, with_spark: bool) -> LoaderCheck:
    """Asks brokers, registry and audit, unless `offline`. Nothing is loaded."""
    problems = [*_here(config), *broken_locks(config)]
    remarks: list[str] = []
    known: ClusterMetadata | None = None
    if not offline:
        try:
            with Brokers(answering_broker(config.bootstrap), patience_seconds=SECONDS) as brokers:
                known = brokers.persist(lambda: brokers.refresh(None))
        except ClientError as error:
            problems.append(f"topics are not checked: {error}")
    tables: tuple[TableSource, ...] = ()
    try:
        tables = tables_of(config, _names(known))
    except LoaderError as error:
        problems.append(str(error))
    else:
        if known is not None and not tables:
            problems.append("no topic matches `topics`")
    checks = [_named(each, known) for each in tables]
    if not offline:
        try:
            checks = _with_columns(config, tables, checks)
        except RegistryError as error:
            why = registry_failure(error, config.registry_address.urls)
            problems.append(f"schemas are not checked: {why}")
    if config.audit and not offline:
        problems += _audit(config)
    elif known is not None and config.ledger and not known.has(LEDGER_TOPIC):
        remarks.append(_without_ledger(config.completeness.settle))
    if with_spark:
        problems += _with_spark(config)
    elif urlsplit(config.root).scheme != "file":
        remarks.append("the root is not checked: --spark starts Spark and creates files there")
    return LoaderCheck(tables=tuple(checks), problems=tuple(problems), remarks=tuple(remarks))


def _here(config: LoaderConfig) -> Iterator[str]:
    """What is wrong on this machine."""
    try:
        check_spark()
        codec(config.format, config.compression)
    except LoaderError as error:
        yield str(error)
    if config.kerberos is not None and (why := why_unreadable(config.kerberos.keytab)):
        yield why
    root = urlsplit(config.root)
    try:
        if root.scheme != "file":
            check_scheme(root.scheme, config.root)
    except LoaderError as error:
        yield str(error)
    if root.scheme == "file":
        there = next(each for each in (Path(root.path), *Path(root.path).parents) if each.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            yield f"`root: {config.root}`: {there} is not a writable folder"


def _audit(config: LoaderConfig) -> Iterator[str]:
    """Whether somebody is there who answers as an audit does."""
    audit = Audit(config.audit, config.cluster, security=config.audit_security, seconds=SECONDS)
    audit.ask([("any", Hour(0))])
    if audit.away is not None:
        yield f"hours would wait for {audit.away.missing}"


def _without_ledger(settle: float | None) -> str:
    so = f"there is no topic {LEDGER_TOPIC}, so"
    if settle is None:
        return f"{so} no hour of events becomes complete unless `completeness.settle` is set"
    return f"{so} an hour is complete {settle:g} s after its end"


def _names(known: ClusterMetadata | None) -> list[str]:
    return [] if known is None else [name for name in known.topics if known.has(name)]


def _named(table: TableSource, known: ClusterMetadata | None) -> TableConfigCheck:
    """What is known without a schema."""
    missing = [
        f"topic {each.topic} does not exist yet"
        for each in table.topics
        if known is not None and not known.has(each.topic)
    ]

    def topic(source: SourceTopic) -> FeedingTopicCheck:
        there = known is not None and known.has(source.topic)
        partitions = len(known.topic(source.topic).partitions) if known and there else 0
        return FeedingTopicCheck(name=source.topic, cluster=source.cluster, partitions=partitions)

    topics = tuple(topic(each) for each in table.topics)
    return TableConfigCheck(name=table.name, topics=topics, remarks=tuple(missing))


def _with_columns(
    config: LoaderConfig, tables: tuple[TableSource, ...], checks: list[TableConfigCheck]
) -> list[TableConfigCheck]:
    """Raises RegistryError if the registry does not answer."""
    with registry_within(config.registry_address) as registry:
        return [
            _resolved(config, registry, table, check)
            for table, check in zip(tables, checks, strict=True)
        ]


def _resolved(
    config: LoaderConfig, registry: RegistryClient, table: TableSource, check: TableConfigCheck
) -> TableConfigCheck:
    try:
        found = table_columns(registry, table, config.header)
    except LoaderError as error:
        return msgspec.structs.replace(check, problems=(str(error),))
    fields = json.loads(found.columns.spark_json)["fields"]
    columns = [ColumnCheck(name=each["name"], type=type_text(each["type"])) for each in fields]
    remarks = [*check.remarks, *found.warnings]
    if not found.columns.has_header:
        remarks.append("its events have no header, so duplicates cannot be recognized")
    return msgspec.structs.replace(
        check,
        topics=tuple(_latest(registry, each) for each in check.topics),
        schema=found.schema.full_name or "",
        columns=tuple(columns),
        remarks=tuple(remarks),
    )


def _latest(registry: RegistryClient, topic: FeedingTopicCheck) -> FeedingTopicCheck:
    latest = registry.latest(f"{topic.name}-value")
    if latest is None:
        return topic
    return msgspec.structs.replace(topic, version=latest.version, id=latest.id)


def type_text(type_: Any) -> str:
    """Of a type in Spark's JSON: `array<long>`, `struct<a:string,b:long>`."""
    if isinstance(type_, str):
        return type_
    match type_["type"]:
        case "array":
            return f"array<{type_text(type_['elementType'])}>"
        case "map":
            return f"map<{type_text(type_['keyType'])},{type_text(type_['valueType'])}>"
    fields = (f"{each['name']}:{type_text(each['type'])}" for each in type_["fields"])
    return f"struct<{','.join(fields)}>"


def _with_spark(config: LoaderConfig) -> Iterator[str]:
    """What Spark says of the root and the format."""
    classes = JavaClasses(classes_directory(os.environ), makes=False)
    with SparkJvm(config, classes) as jvm:
        try:
            spark = jvm.start(None)
            try:
                check_format(config.format, config.compression, spark.check_avro)
                open_store(config.root, spark.store).prove()
            finally:
                spark.end()
        except LoaderError as error:
            yield str(error)


def show_report(report: LoaderCheck) -> None:
    """Its tables and their columns, for people."""
    topics = [
        {
            "table": table.name,
            "topic": each.name,
            "cluster": each.cluster,
            "partitions": each.partitions or None,
            "schema": f"{table.schema} v{each.version} (id {each.id})" if each.id >= 0 else None,
        }
        for table in report.tables
        for each in table.topics
    ]
    print_section(("table", "topic", "cluster", "partitions", "schema"), topics)
    columns = [
        {"table": table.name, "column": each.name, "type": each.type}
        for table in report.tables
        for each in table.columns
    ]
    print_section(("table", "column", "type"), columns)
