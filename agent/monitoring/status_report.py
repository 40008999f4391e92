"""Builds the `Status` of an agent from its parts, for each request.

The request runs on another thread than the agent's work: values are read without locks, so some may
be slightly older than others.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from agent.accounting.parcels import BatchKind
from agent.accounting.runs import SourceId
from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Input
from agent.encoding.topic_schemas.current_schemas import TopicSchemas
from agent.encoding.topic_schemas.values import TopicSchema
from agent.files.files import Files
from agent.journal.journal import Journal
from agent.monitoring.status import (
    AgentPhase,
    FileStatus,
    InputStatus,
    JournalStatus,
    ProcessStatus,
    Status,
    TopicStatus,
    UnreadablePath,
)
from agent.reading.feeds import Feed
from agent.reading.intake import Intake
from agent.reading.pipeline import Pipeline
from agent.reading.resource_limits import cpu_seconds, resident_bytes
from agent.shipping.shipper import Shipper
from client.connection.connection import SOFTWARE_VERSION
from ground.printable import one_line
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC

_MOST_NAMED: Final = 100


class AgentParts(msgspec.Struct, frozen=True):
    """The parts of an agent, and the damage to its journal at the start."""

    journal: Journal
    schemas: TopicSchemas
    shipper: Shipper
    files: Files
    pipeline: Pipeline
    copied_from: str
    damage: str


def status_of(
    config: AgentConfig,
    inputs: Sequence[Input],
    parts: AgentParts | None,
    *,
    phase: AgentPhase,
    started_millis: int,
    failure: str,
) -> Status:
    status = Status(
        phase=phase,
        version=SOFTWARE_VERSION,
        host=config.host_name,
        cluster=config.cluster,
        started_millis=started_millis,
        failure=failure,
        process=ProcessStatus(resident_bytes=resident_bytes(), cpu_seconds=cpu_seconds()),
    )
    if parts is None:
        return status
    files = _files(parts)
    by_input: dict[str, list[FileStatus]] = defaultdict(list)
    for file in files:
        by_input[file.input].append(file)
    return msgspec.structs.replace(
        status,
        agent=parts.journal.agent_id,
        fingerprint=parts.journal.key.public.fingerprint,
        public_key=parts.journal.key.public.pem.decode(),
        copied_from=parts.copied_from,
        inotify=parts.pipeline.recorder.polling or "on",
        registry=parts.schemas.trouble,
        ledger_seq=parts.journal.ledger_seq,
        files=files,
        inputs=tuple(_input(input_, parts, by_input[input_.label]) for input_ in inputs),
        topics=tuple(_topic(name, inputs, parts) for name in _topics(config, inputs, parts)),
        journal=_journal(parts),
        process=msgspec.structs.replace(
            status.process,
            open_files=parts.files.open_files,
            kept_files=parts.files.kept_files,
            paused_seconds=parts.pipeline.paused_seconds,
            in_flight_bytes=parts.shipper.in_flight_bytes(),
            in_flight_limit=parts.shipper.in_flight_limit,
            over_memory=parts.pipeline.over_memory,
        ),
    )


def _files(parts: AgentParts) -> tuple[FileStatus, ...]:
    acknowledged_positions = _first_open_positions(parts.journal)
    intakes = list(parts.pipeline.recorder.intakes.values())
    now = parts.pipeline.clock()
    files = [_file(intake, acknowledged_positions, parts, now) for intake in intakes]
    return tuple(sorted(files, key=lambda file: (file.path, file.source)))


def _first_open_positions(journal: Journal) -> Mapping[SourceId, int]:
    """The position of the first unacknowledged byte in flight, by source."""
    positions: dict[SourceId, int] = {}
    for batch in journal.open_batches:
        if batch.outgoing.kind is not BatchKind.LEDGER:
            for run in batch.outgoing.runs:
                positions[run.source] = min(run.position, positions.get(run.source, run.position))
    return positions


def _file(
    intake: Intake, acknowledged: Mapping[SourceId, int], parts: AgentParts, now: float
) -> FileStatus:
    followed = intake.followed
    source = parts.journal.known_source(followed.source)
    position = source.progress.position if source else 0
    acknowledged_position = acknowledged.get(followed.source, position)
    lag = max(0, followed.size - acknowledged_position)
    return FileStatus(
        path=one_line(followed.current_path),
        source=followed.source,
        input=followed.input,
        topic=followed.topic,
        size=followed.size,
        position=position,
        acknowledged=acknowledged_position,
        lag_bytes=lag,
        lag_seconds=max(0.0, now - intake.waits_since) if lag else 0.0,
        deleted=followed.nameless and not followed.is_archive,
        error=parts.pipeline.recorder.unreadable.get(followed.current_path, ""),
        inode=followed.identity[1],
    )


def _input(input_: Input, parts: AgentParts, files: Sequence[FileStatus]) -> InputStatus:
    feed = parts.pipeline.feeds.get(input_.label)
    stalled_reasons = parts.shipper.stalled()
    topics = (input_.topic, input_.topic + DEAD_SUFFIX)
    unreadable = unreadable_paths(input_, parts)
    topic_stalls = [
        f"topic {topic}: {stalled_reasons[topic]}" for topic in topics if topic in stalled_reasons
    ]
    status = InputStatus(
        name=input_.label,
        topic=input_.topic,
        files=len(files),
        unreadable_files=len(unreadable),
        unreadable=unreadable[:_MOST_NAMED],
        size=sum(file.size for file in files),
        has_matches=parts.files.has_matches(input_.label),
        lag_bytes=sum(file.lag_bytes for file in files),
        waiting_archives=parts.files.waiting_archives(input_.label),
        backfill=parts.files.backfill_plan(input_.label),
        lag_seconds=max((file.lag_seconds for file in files), default=0.0),
        stopped=_stopped(input_, feed, parts.schemas) or "; ".join(topic_stalls),
        warning=(feed.warning if feed else "")
        or parts.schemas.warning(input_)
        or unmatched_words(input_, parts),
    )
    return msgspec.structs.replace(status, **_counts(feed)) if feed else status


def unmatched_words(input_: Input, parts: AgentParts) -> str:
    """Since when no file matches an input that had files; empty if some do, or never did."""
    unmatched = parts.files.unmatched(input_.label)
    if unmatched is None:
        return ""
    since_millis, path = unmatched
    since = datetime.fromtimestamp(since_millis / 1000, UTC)
    return f"no file matches since {since:%Y-%m-%d %H:%M:%S} UTC; the last was {one_line(path)}"


def unreadable_paths(input_: Input, parts: AgentParts) -> tuple[UnreadablePath, ...]:
    """The files and folders of the input that cannot be read, sorted."""
    unreadable = sorted(parts.pipeline.recorder.unreadable.copy().items())
    return tuple(
        UnreadablePath(path=one_line(path), why=reason)
        for path, reason in unreadable
        if parts.files.means(input_.label, path)
    )


def _stopped(input_: Input, feed: Feed | None, schemas: TopicSchemas) -> str:
    """Why the input is not read; empty if it is."""
    if feed is None or feed.reader is not None:
        return ""
    return schemas.missing(input_) or feed.stopped


def _counts(feed: Feed) -> dict[str, int | float]:
    counts = feed.counts
    return {name: getattr(counts, name) for name in counts.__struct_fields__}


def _topics(config: AgentConfig, inputs: Sequence[Input], parts: AgentParts) -> list[str]:
    topics = {input_.topic for input_ in inputs} | set(parts.shipper.counts.topics)
    if config.ledger:
        topics.add(LEDGER_TOPIC)
    return sorted(topics)


def _topic(name: str, inputs: Sequence[Input], parts: AgentParts) -> TopicStatus:
    chosen = parts.journal.chosen(name)
    schema = _schema(name, inputs, parts.schemas)
    counts = parts.shipper.counts.topics.get(name)
    batches, size = parts.shipper.in_flight(name)
    return TopicStatus(
        name=name,
        partitions=(chosen.partition,) if chosen else (),
        schema_id=schema.id if schema else -1,
        schema_version=schema.version if schema else -1,
        stalled=parts.shipper.stalled().get(name, ""),
        batches=counts.batches if counts else 0,
        events=counts.events if counts else 0,
        bytes=counts.bytes if counts else 0,
        retries=counts.retries if counts else 0,
        replaced=counts.replaced if counts else 0,
        in_flight_batches=batches,
        in_flight_bytes=size,
        last_error=counts.last_error if counts else "",
    )


def _schema(name: str, inputs: Sequence[Input], schemas: TopicSchemas) -> TopicSchema | None:
    if name == LEDGER_TOPIC:
        return schemas.ledger
    if name.endswith(DEAD_SUFFIX):
        return schemas.dead_letters(name.removesuffix(DEAD_SUFFIX))
    return next((schemas.of(input_) for input_ in inputs if input_.topic == name), None)


def _journal(parts: AgentParts) -> JournalStatus:
    sizes = parts.journal.sizes
    return JournalStatus(
        bytes=sizes.file_bytes,
        generation=sizes.generation,
        open_batches=sizes.open_batches,
        statements=sizes.statements,
        given_up_statements=sizes.given_up,
        sources=sizes.sources,
        full=parts.pipeline.full or parts.journal.trouble or "",
        damage=parts.damage,
    )
