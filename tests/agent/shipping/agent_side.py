"""An agent without files: lines become parcels, the journal takes them over, they are shipped.

What is in the log afterwards must be each line once, in order, and the ledger must add up.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from agent.accounting.parcels import BatchKind, Outgoing, Parcel
from agent.accounting.runs import Fingerprint, KnownSource, Progress, Run, SourceId
from agent.configuration.config import AgentConfig, AgentLimits
from agent.configuration.inputs import Input
from agent.encoding.topic_schemas.values import TopicSchema
from agent.journal.binding import Binding
from agent.journal.journal import Journal
from agent.shipping.replacements import window_counts
from agent.shipping.shipper import Shipper
from client.connection.brokers import Brokers
from client.producing.delivery import Batch, TopicPartition
from harness.processes.waiting import wait_until
from schemas.envelope import Decoder, Encoder, split
from schemas.event_schemas import DEAD_LETTER, LEDGER, LOG_LINE, built_in
from schemas.parsing import AvroSchema
from tests.ledger.passages import batches_in_log
from wire.record_batches.batch import BatchHeader
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch, records

LINE_ID, DEAD_ID, LEDGER_ID = range(2_000_000_001, 2_000_000_004)  # no registry's
WINDOW_MILLIS = 60_000
PATIENCE = 60.0
_SCHEMAS = {LINE_ID: LOG_LINE, DEAD_ID: DEAD_LETTER, LEDGER_ID: LEDGER}


def schema_of(schema_id: int) -> AvroSchema | None:
    name = _SCHEMAS.get(schema_id)
    return built_in(name) if name else None


class KnownSchemas(msgspec.Struct):
    """Those that come with Penstock, under ids of these tests."""

    ledger: TopicSchema | None = msgspec.field(
        default_factory=lambda: TopicSchema("_audit", LEDGER_ID, 1, built_in(LEDGER))
    )

    def dead_letters(self, topic: str) -> TopicSchema | None:
        return TopicSchema(f"{topic}.dead", DEAD_ID, 1, built_in(DEAD_LETTER))


def config_for(bootstrap: str, directory: Path, **settings: Any) -> AgentConfig:
    return AgentConfig(
        inputs=(Input(paths=("/never/read",), topic="unused"),),
        brokers=tuple(bootstrap.split(",")),
        data_dir=str(directory),
        host="here",
        cluster="test",
        **{"ledger_interval": 0.2, **settings},
    )


def now_millis() -> int:
    return time.time_ns() // 1_000_000


class Source(msgspec.Struct):
    """A file that is never there: its lines are made up."""

    id: SourceId
    topic: str
    position: int = 0
    seq: int = 0

    def known(self) -> KnownSource:
        return KnownSource(
            id=self.id,
            input="test",
            topic=self.topic,
            path=f"/logs/{self.id}",
            device=1,
            inode=1,
            fingerprint=Fingerprint(0, b""),
            progress=Progress(0),
            born_ns=1,
        )


def events_of(
    source: Source, lines: Sequence[str], times: Sequence[int], host: str = "here"
) -> tuple[list[Record], Run]:
    """The next lines of a source as records, and the run that they are."""
    encoder = Encoder(built_in(LOG_LINE), LINE_ID)
    first, start = source.seq, source.position
    found: list[Record] = []
    for line, time_millis in zip(lines, times, strict=True):
        header = {
            "time": time_millis,
            "host": host,
            "app": "test",
            "source": source.id,
            "seq": source.seq,
            "position": source.position,
        }
        event = {"header": header, "path": f"/logs/{source.id}", "message": line}
        found.append(Record(len(found), time_millis, None, encoder.encode(event)))
        source.seq += 1
        source.position += len(line.encode()) + 1
    run = Run(source.id, first, len(found), start, source.position, len(found))
    return found, run


def outgoing_of(
    number: int,
    target: TopicPartition,
    parts: Sequence[tuple[list[Record], Run]],
    codec: Codec = Codec.ZSTD,
) -> Outgoing:
    together = [record for part, _ in parts for record in part]
    placed = [record._replace(offset=at) for at, record in enumerate(together)]
    base = min(record.timestamp for record in placed)
    data = build_batch(placed, codec=codec, base_timestamp=base, leader_epoch=-1)
    return Outgoing(
        number=number,
        kind=BatchKind.EVENTS,
        batch=Batch(target, data),
        runs=tuple(run for _, run in parts),
        windows=window_counts([record.timestamp for record in placed], WINDOW_MILLIS),
        delays=(len(placed),),
    )


class AgentSide:
    """A journal and a shipper; several of them, one after the other, on one directory."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        request_seconds: float = 10.0,
        stand_seconds: float = 0.1,
        schemas: KnownSchemas | None = None,
        **settings: Any,
    ) -> None:
        self.directory = directory
        self.config = config_for(bootstrap, directory, **settings)
        self.journal, self.state = Journal.open(
            directory, sync=False, limit_bytes=1 << 26, host_binding=Binding.of(directory)
        )
        self.shipper = Shipper(
            self.config,
            self.journal,
            self.state,
            schemas or KnownSchemas(),
            request_seconds=request_seconds,
            stand_seconds=stand_seconds,
        )
        self.sources = {
            each.id: Source(each.id, each.topic, each.progress.position, each.progress.seq)
            for each in self.state.sources
        }

    def new_source(self, topic: str) -> Source:
        source = Source(self.journal.next_source(), topic)
        self.journal.source(source.known())
        self.sources[source.id] = source
        return source

    def target(self, topic: str) -> TopicPartition:
        placement = self.shipper.target(topic) or wait_until(lambda: self.shipper.target(topic))
        assert placement is not None
        return placement.target

    def ship(
        self,
        source: Source,
        lines: Sequence[str],
        *,
        times: Sequence[int] | None = None,
        target: TopicPartition | None = None,
        codec: Codec = Codec.ZSTD,
    ) -> Outgoing:
        """One batch of these lines: journalled, then submitted."""
        parcel = self.parcel(source, lines, times=times, target=target, codec=codec)
        self.shipper.submit(parcel)
        return parcel.batches[0]

    def parcel(
        self,
        source: Source,
        lines: Sequence[str],
        *,
        times: Sequence[int] | None = None,
        target: TopicPartition | None = None,
        codec: Codec = Codec.ZSTD,
    ) -> Parcel:
        """In the journal already."""
        target = target or self.target(source.topic)
        part = events_of(source, lines, times or [now_millis()] * len(lines))
        outgoing = outgoing_of(self.journal.next_number(), target, [part], codec)
        parcel = Parcel([outgoing], (), {source.id: Progress(source.position, source.seq)})
        self.journal.parcel(parcel)
        return parcel

    def settle(self) -> None:
        """Until all lines are acknowledged."""
        wait_until(lambda: self.shipper.oldest_open() is None)

    def close(self, drain: float = PATIENCE) -> bool:
        drained = self.shipper.stop(drain)
        self.journal.close()
        assert self.shipper.failure is None
        return drained


@contextmanager
def agent_side(bootstrap: str, directory: Path, **options: Any) -> Iterator[AgentSide]:
    """Runs at once, and drains at the end if nothing failed."""
    directory.mkdir(exist_ok=True)
    side = AgentSide(bootstrap, directory, **options)
    side.shipper.start()
    drain = 0.0
    try:
        yield side
        drain = PATIENCE
    finally:
        side.close(drain)


def log_of(brokers: Brokers, target: TopicPartition) -> list[tuple[BatchHeader, Sequence[Record]]]:
    """All batches of a partition that are there."""
    batches = batches_in_log(brokers, target)
    return [(batch.header, list(records(batch.data))) for batch in batches]


def events_in_log(brokers: Brokers, target: TopicPartition) -> list[dict[str, Any]]:
    """Those that were written here: `_audit` has others of the same run, with registries' ids."""
    decoder = Decoder(schema_of)
    values = (record.value or b"" for _, found in log_of(brokers, target) for record in found)
    return [decoder.decode(value) for value in values if split(value)[0] in _SCHEMAS]


def messages_in_log(brokers: Brokers, target: TopicPartition) -> list[str]:
    return [event["message"] for event in events_in_log(brokers, target)]


def limits(**settings: Any) -> AgentLimits:
    return AgentLimits(**settings)
