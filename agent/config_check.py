"""Implements `penstock check-config agent`: predicts what an agent would do, without running one.

For each input it checks the files, the schema, and whether they fit. It queries the registry as a
running agent does, so it also registers the schemas that an agent would.

For topics it checks the configuration, on Apache Kafka and on Penstock. Batches must stay byte for
byte as the agent sent them, and events must keep their times: otherwise the audit's counts are
useless. Everything less serious is a remark.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Archives, Format, Input
from agent.encoding.events.reader import EventReader
from agent.encoding.topic_schemas.registry_lookup import find, register_files
from agent.encoding.topic_schemas.values import (
    LEDGER_SCHEMA,
    TopicPurpose,
    TopicSchema,
    dead_letters_of,
    wanted_for,
)
from agent.errors import InputError, JournalctlError, NoJournalFiles, NoSchema
from agent.files.listing import Survey
from agent.open_files.opening import Opening
from agent.recognition.compressed import has_archive_name, has_compressed_name
from agent.system_journal.journalctl import check_access, last_entry
from agent.system_journal.spool import NO_HOLES, has_holes
from client.admin.new_topics import NewTopics, new_topics
from client.admin.topics import topic_configs
from client.connection.brokers import Brokers
from ground.printable import one_line
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC
from schemas.registry_client import RegistryClient
from wire.mirrored import MIRROR_OF

_MOST_NAMED = 3


class InputCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one input. `problems` keep its lines from being shipped; `remarks` do not."""

    name: str
    topic: str
    format: str
    files: int = 0
    bytes: int = 0
    schema: str = ""  # its name; empty if it is not known
    version: int = -1
    id: int = -1
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def check_inputs(
    config: AgentConfig, inputs: Sequence[Input], registry: RegistryClient | None
) -> list[InputCheck]:
    """Checks inputs, and their schemas if a registry is given. Raises RegistryError if the registry
    does not answer."""
    opening = Opening(config.follow_links, config.secret_files)
    checks = [
        _with_entries(_with_files(input_, opening), input_, config.data_dir) for input_ in inputs
    ]
    pairs = zip(checks, inputs, strict=True)
    if registry is None:
        return [_with_fit(check, config, input_, None) for check, input_ in pairs]
    return [_with_schema(check, config, input_, registry) for check, input_ in pairs]


def check_ledger(registry: RegistryClient) -> str:
    """Why the ledger's schema is not available; empty if it is. Raises RegistryError."""
    return _found(registry, LEDGER_SCHEMA, ())[1]


def _with_entries(check: InputCheck, input_: Input, data_dir: str) -> InputCheck:
    """Checks that an input's journal can be read, and that `data_dir` can hold its entries."""
    if input_.journal is None:
        return check
    problems, remarks = [], []
    try:
        check_access(input_.journal)
        if last_entry(input_.journal) is None:
            remarks.append(f"{input_.journal.place}: the journal has no entries at present")
    except NoJournalFiles as error:  # as of log files: there may be some later
        remarks.append(f"{input_.journal.place}: {error}")
    except JournalctlError as error:
        problems.append(f"{input_.journal.place}: {error}")
    try:
        if Path(data_dir).is_dir() and not has_holes(Path(data_dir)):
            problems.append(f"data_dir {one_line(data_dir)}: {NO_HOLES}")
    except OSError as error:
        remarks.append(f"data_dir {one_line(data_dir)}: {error.strerror or error}")
    return msgspec.structs.replace(check, problems=tuple(problems), remarks=tuple(remarks))


def _with_files(input_: Input, opening: Opening) -> InputCheck:
    if input_.journal is not None:
        return InputCheck(name=input_.label, topic=input_.topic, format=input_.format.value)
    listing = Survey(input_.paths, input_.exclude, lambda _: None).all()
    readable_files = [
        sighting for sighting in listing.sightings if not has_compressed_name(sighting.path)
    ]
    files = {sighting.identity: sighting for sighting in readable_files}.values()
    remarks = []
    unreadable: dict[str, list[str]] = {}
    for sighting in files:
        try:
            os.close(opening.open(sighting.path)[0])
        except OSError as error:
            unreadable.setdefault(error.strerror or str(error), []).append(sighting.path)
    remarks += [f"cannot read {_named(paths)}: {reason}" for reason, paths in unreadable.items()]
    for path, failure in listing.failures.items():
        remarks.append(f"{one_line(path)}: {failure.strerror or failure}")
    archives = [
        sighting
        for sighting in listing.sightings
        if input_.archives is Archives.READ and has_archive_name(sighting.path)
    ]
    if archives:
        archive_bytes = sum(sighting.size for sighting in archives)
        remarks.append(
            f"{len(archives)} archives of {archive_bytes:,} bytes will be read, "
            "unless their lines were read before"
        )
    if compressed_count := len(listing.sightings) - len(readable_files) - len(archives):
        remarks.append(f"{compressed_count} compressed files will not be read")
    if not files and not archives and not listing.failures:
        remarks.append("no file matches at present")
    return InputCheck(
        name=input_.label,
        topic=input_.topic,
        format=input_.format.value,
        files=len(files),
        bytes=sum(sighting.size for sighting in files),
        remarks=tuple(remarks),
    )


def _with_schema(
    check: InputCheck, config: AgentConfig, input_: Input, registry: RegistryClient
) -> InputCheck:
    problems = []
    remarks = list(check.remarks)
    files = (input_.schema,) if input_.schema and config.auto_register else ()
    if input_.schema and not config.auto_register:
        remarks.append("`schema` is not registered: `auto_register` is off")
    purpose = wanted_for(input_)
    schema, problem = _found(registry, purpose, files)
    if problem:
        problems.append(problem)
    if problem := _found(registry, dead_letters_of(input_.topic), ())[1]:
        problems.append(problem)
    problems = [*check.problems, *problems]
    check = msgspec.structs.replace(check, problems=tuple(problems), remarks=tuple(remarks))
    return check if schema is None else _with_fit(check, config, input_, schema)


def _with_fit(
    check: InputCheck, config: AgentConfig, input_: Input, topic_schema: TopicSchema | None
) -> InputCheck:
    """Adds whether the input fits its schema. Without a schema, only plain text is checked."""
    if topic_schema is not None:
        name = topic_schema.schema.full_name or ""
        check = msgspec.structs.replace(
            check, schema=name, version=topic_schema.version, id=topic_schema.id
        )
    elif input_.format is not Format.PLAIN:
        return check
    try:
        EventReader(input_, topic_schema.schema if topic_schema else None, config.times)
    except InputError as error:
        reason = str(error).removeprefix(f"{input_.label}: ")
        return msgspec.structs.replace(check, problems=(*check.problems, reason))
    return check


def _found(
    registry: RegistryClient, wanted: TopicPurpose, files: Sequence[str]
) -> tuple[TopicSchema | None, str]:
    problem = ""
    try:
        register_files(registry, wanted, files)
    except NoSchema as error:
        problem = str(error)
    try:
        return find(registry, wanted), problem
    except NoSchema as error:
        return None, problem or str(error)


def _named(paths: Sequence[str]) -> str:
    listed_paths = ", ".join(one_line(path) for path in paths[:_MOST_NAMED])
    unlisted_count = len(paths) - _MOST_NAMED
    return f"{listed_paths} and {unlisted_count} more" if unlisted_count > 0 else listed_paths


_DAY_MILLIS = 86_400_000


class TopicCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one topic; `partitions` is 0 if it does not exist."""

    name: str
    partitions: int = 0
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def topics_of(inputs: Sequence[Input], *, ledger: bool) -> list[str]:
    topics = [input_.topic for input_ in inputs]
    dead_topics = [topic + DEAD_SUFFIX for topic in topics]
    return list(dict.fromkeys([*topics, *dead_topics, *([LEDGER_TOPIC] if ledger else [])]))


def check_topics(brokers: Brokers, config: AgentConfig, topics: Sequence[str]) -> list[TopicCheck]:
    """Checks the configuration of topics. Raises ClientError if the cluster does not answer."""
    topic_metadata = brokers.persist(lambda: brokers.refresh(topics))
    defaults = None if all(topic_metadata.has(name) for name in topics) else new_topics(brokers)
    checks = []
    for name in topics:
        if not topic_metadata.has(name):
            checks.append(check_missing(name, defaults, config))
            continue
        configs = {entry.name: entry.value or "" for entry in topic_configs(brokers, name)}
        checks.append(
            TopicCheck(
                name=name,
                partitions=len(topic_metadata.topic(name).partitions),
                problems=tuple(problems_of(configs)),
                remarks=tuple(remarks_on(name, configs, config)),
            )
        )
    return checks


def check_missing(name: str, defaults: NewTopics | None, config: AgentConfig) -> TopicCheck:
    """Checks what happens with a topic that does not exist, by the brokers' settings for new
    topics."""
    problem = "it does not exist yet"
    if defaults is None:
        remark = f"{problem}: create it, or let the brokers do so at first use"
        return TopicCheck(name=name, remarks=(remark,))
    if defaults.at_first_use:
        remark = (
            f"{problem}: brokers create it at first use, with num.partitions={defaults.partitions}"
        )
        return TopicCheck(
            name=name,
            problems=tuple(problems_of(defaults.configs)),
            remarks=(remark, *remarks_on(name, defaults.configs, config)),
        )
    command = f"auto.create.topics.enable is false: penstock topics create {name}"
    if name.endswith(DEAD_SUFFIX):
        remark = f"{problem}, and the first dead letter would wait for it, since {command}"
        return TopicCheck(name=name, remarks=(remark,))
    return TopicCheck(name=name, problems=(f"{problem}, and {command}",))


def problems_of(configs: Mapping[str, str]) -> Iterator[str]:
    compression = configs.get("compression.type", "producer")
    if compression != "producer" and MIRROR_OF not in configs:  # Penstock's own brokers never do
        yield (
            f"compression.type is {compression}: brokers would recompress batches, and their "
            "checksums would not match the ledger; set it to producer"
        )
    timestamp_type = configs.get("message.timestamp.type", "CreateTime")
    if timestamp_type != "CreateTime":
        yield (
            f"message.timestamp.type is {timestamp_type}: events would lose their time; "
            "set CreateTime"
        )
    if "compact" in configs.get("cleanup.policy", ""):
        yield "cleanup.policy has compact: events without keys would be refused; set delete"


def remarks_on(name: str, configs: Mapping[str, str], config: AgentConfig) -> Iterator[str]:
    batch_limit = _number(configs, "max.message.bytes")
    if 0 <= batch_limit < config.batches.bytes:
        yield f"max.message.bytes is {batch_limit:,}, so batches are smaller than `batches.bytes`"
    if name == LEDGER_TOPIC:  # its entries have the time at which they are written
        return
    oldest_millis = config.times.oldest * 1000
    retention_millis = _number(configs, "retention.ms")
    if 0 <= retention_millis < oldest_millis:
        yield (
            f"retention.ms is {_days(retention_millis)}: Apache Kafka goes by the events' "
            "times, and deletes older events soon after they arrive"
        )
    for bounded_key, bound in (
        ("message.timestamp.difference.max.ms", oldest_millis),
        ("message.timestamp.before.max.ms", oldest_millis),
        ("message.timestamp.after.max.ms", config.times.newest * 1000),
    ):
        limit_millis = _number(configs, bounded_key)
        if 0 <= limit_millis < bound:
            yield f"{bounded_key} is {_days(limit_millis)}: times beyond it are set to that bound"


def _number(configs: Mapping[str, str], name: str) -> int:
    """The number, or -1 if it is missing or unlimited."""
    text = configs.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def _days(millis: int) -> str:
    if millis % _DAY_MILLIS == 0:
        return f"{millis // _DAY_MILLIS} days"
    return f"{millis:,} ms"
