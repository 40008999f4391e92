"""Compares a run's duplicates with their originals (loader/commit/contests.py): the driver reads
all events with the same source and seq again. Runs without duplicates skip this.

The reports of this run and the manifests of earlier ones show where an event landed. If there are
collisions, agents' claims are read from `_audit`: as late as possible, since an agent claims an
offset some seconds after it was acknowledged.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from client.errors import ClientError
from client.reading.fetcher import FetchedBatch
from client.reading.offsets import offsets_at
from client.reading.partition_reader import PartitionReader
from ground.intervals import Interval, Intervals, has, intersection, merged, minus, union
from ledger.claims import Claim, claims
from ledger.lookup import lookup_at
from ledger.names import topic_id_text
from ledger.reading import LedgerPositions, LedgerReader, positions_since
from ledger.signed_journals import EntryName, SignedJournals
from ledger.source_ids import owner_of
from loader.commit.contests import GONE, Contender, Named, Settled, settled
from loader.commit.staging import Staged, sources_of
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.columns import Columns
from loader.decoding.decoded import Decoded
from loader.errors import TooManyDuplicates
from loader.landing.task_spec import TaskSpec
from loader.landing.writer_schemas import WriterSchemas
from loader.run.load_context import TableLoad
from loader.values.manifests import KnownSources, Manifest
from loader.values.reports import MOST_REPEATS, half_open, intervals_of
from loader.values.tables import Partition, Slice, hour_of
from schemas.errors import SchemaError
from schemas.parsing import parse
from wire.messages.list_offsets import EARLIEST
from wire.record_batches.records import records

MOST_COLLISIONS: Final = 5_000  # stretches in one run, which the ledger lists
_TOGETHER: Final = 100_000  # events that are compared at a time
_DAY: Final = 86_400_000
_OFFSET: Final = "_offset"
_CHUNK_BYTES: Final = 32 * 1024 * 1024

Seqs = Mapping[str, Intervals]  # by source


class Comparison:
    """Compares the duplicates of one run. Used once."""

    def __init__(
        self,
        load: TableLoad,
        spec: TaskSpec,
        slices: Sequence[Slice],
        results: Staged,
        known: Sequence[KnownSources],
    ) -> None:
        self._load = load
        self._spec = spec
        self._slices = slices
        self._results = results
        self._known = known
        self._columns = Columns(
            parse(spec.reader_schema, strict=False),
            header=spec.header,
            with_cluster=spec.with_cluster,
        )
        self._since = load.context.now()  # claims are read from this time on

    def settle(self, folders: Sequence[str]) -> Settled:
        """Compares and decides. `folders` have the reports of the slices. Raises TooManyDuplicates,
        and errors of reading."""
        settled = Settled()
        sources = sources_of(self._load.context.store, folders)
        with WriterSchemas(self._spec) as schemas:
            for topic in dict.fromkeys(piece.topic for piece in self._slices):
                pieces = [piece for piece in self._slices if piece.topic == topic]
                for seqs in _portions(self._repeats(pieces)):
                    contests = self._contests(pieces, sources, seqs, schemas)
                    settled.add(self._settled(pieces[0], contests))
                    if len(settled.collisions) > MOST_COLLISIONS:
                        raise TooManyDuplicates(
                            f"table {self._load.name}: more than {MOST_COLLISIONS:,} stretches of"
                            f" {topic} have the source and seq of other events, but different"
                            " content; nothing was committed. --max-records loads fewer at a time"
                        )
        return settled

    def _repeats(self, pieces: Sequence[Slice]) -> Seqs:
        seqs: dict[str, list[Interval]] = defaultdict(list)
        for piece in pieces:
            repeats = self._results.reports[piece.number].repeats
            if len(repeats) >= MOST_REPEATS:
                raise TooManyDuplicates(
                    f"table {self._load.name}: {piece.log}, offsets {piece.first} to"
                    f" {piece.end - 1}: more than {MOST_REPEATS:,} stretches of events have a"
                    " source and seq that landed before; nothing was committed. --max-records loads"
                    " fewer at a time"
                )
            for repeat in repeats:
                seqs[repeat.source].append((repeat.seq, repeat.seq + repeat.events))
        return {source: merged(intervals) for source, intervals in seqs.items()}

    def _contests(
        self,
        pieces: Sequence[Slice],
        sources: Mapping[int, Seqs],
        contested: Seqs,
        schemas: WriterSchemas,
    ) -> dict[Named, list[Contender]]:
        """All events with these seqs, in the order in which they landed or come in the log."""
        contests: dict[Named, list[Contender]] = defaultdict(list)
        self._earlier(pieces[0], contested, contests, schemas)
        for piece in pieces:
            report = self._results.reports[piece.number]
            repeats = [
                (repeat.source, (repeat.seq, repeat.seq + repeat.events))
                for repeat in report.repeats
            ]
            landed_sources = sources[piece.number].items()
            events = [
                *repeats,
                *((source, part) for source, seqs in landed_sources for part in seqs),
            ]
            if not any(intersection(contested.get(name, ()), (part,)) for name, part in events):
                continue
            end = report.next_offset
            for name, contender in self._read(piece, (piece.first, end), contested, schemas):
                contests[name].append(contender)
        return contests

    def _earlier(
        self,
        topic: Slice,
        contested: Seqs,
        contests: dict[Named, list[Contender]],
        schemas: WriterSchemas,
    ) -> None:
        """Adds events that landed in earlier runs; those no longer in the log are added as gone."""
        remaining_sources = self._known_of(topic, contested)
        for manifest in self._former(remaining_sources):
            for log, offsets, seqs in _places(manifest, topic, remaining_sources):
                buried_offsets = _buried(manifest, log)
                landed_contenders: dict[Named, Contender] = {}
                piece = msgspec.structs.replace(topic, partition=log[1])
                for name, contender in self._read(piece, offsets, seqs, schemas):
                    if not has(buried_offsets, contender.offset):
                        landed_contenders.setdefault(
                            name, msgspec.structs.replace(contender, landed=True)
                        )
                for name, contender in landed_contenders.items():
                    contests[name].append(contender)
                    self._since = min(self._since, manifest.committed)
                for source, intervals in seqs.items():
                    remaining_sources[source] = minus(remaining_sources[source], intervals)
        for source, intervals in self._known_of(topic, contested).items():
            for seq in (seq for first, end in intervals for seq in range(first, end)):
                if not contests[source, seq]:
                    contests[source, seq].append(_gone(topic.partition))

    def _known_of(self, topic: Slice, contested: Seqs) -> dict[str, Intervals]:
        """Those of these events that landed before."""
        intervals: dict[str, Intervals] = {}
        for sources in self._known:
            if sources.topic == topic.topic:
                for source in contested.keys() & sources.landed.keys():
                    contested_intervals = intersection(
                        contested[source], intervals_of(sources.landed[source])
                    )
                    intervals[source] = union(intervals.get(source, ()), contested_intervals)
        return intervals

    def _former(self, remaining: Seqs) -> Iterator[Manifest]:
        """Earlier manifests, the newest first, while any event is still to be found."""
        commit_log = self._load.commit_log
        for run in reversed(commit_log.runs()):
            if not any(remaining.values()):
                return
            yield commit_log.read(run)

    def _read(
        self, piece: Slice, offsets: Interval, contested: Seqs, schemas: WriterSchemas
    ) -> Iterator[tuple[Named, Contender]]:
        """Those of these events at these offsets that are still in the log, within the hours being
        loaded."""
        brokers, partition = self._load.brokers, piece.partition
        earliest_offset = offsets_at(brokers, piece.topic, [partition], EARLIEST)[partition]
        first_offset, end = max(offsets[0], earliest_offset), offsets[1]
        if first_offset >= end:
            return
        decoder = BatchDecoder(
            self._columns,
            schemas,
            topic=piece.topic,
            partition=partition,
            cluster=piece.cluster,
            times=self._spec.times,
        )
        reader = PartitionReader(
            brokers,
            piece.topic,
            partition,
            first_offset,
            end,
            topic_id=piece.topic_id,
            from_within=True,
        )
        hours = self._spec.only_hours
        for batch in reader:
            for name, contender in _among(batch, decoder.decode(batch), contested):
                is_requested_hour = not hours or hour_of(contender.time) in hours
                if is_requested_hour and first_offset <= contender.offset < end:
                    yield name, contender

    def _settled(self, topic: Slice, contests: Mapping[Named, Sequence[Contender]]) -> Settled:
        collisions = {
            name: contenders
            for name, contenders in contests.items()
            if len({event.content for event in contenders}) > 1
        }
        if not collisions:
            return Settled()
        claims = self._claims(topic, {source for source, _ in collisions})
        claimed_collisions = {
            name: [
                msgspec.structs.replace(event, claimed=claims.by(name, event)) for event in events
            ]
            for name, events in collisions.items()
        }
        return settled(claimed_collisions, topic.topic, topic.topic_id)

    def _claims(self, topic: Slice, sources: set[str]) -> "_Claims":
        """The agents' claims of these sources; none if the ledger cannot be read."""
        result, journals = _Claims(), SignedJournals()
        pending: dict[EntryName, list[Claim]] = defaultdict(list)
        load = self._load
        topic_id = topic_id_text(UUID(topic.topic_id) if topic.topic_id else None)
        try:
            reader = LedgerReader(
                load.brokers, lookup_at(load.context.registry), chunk_bytes=_CHUNK_BYTES
            )
            for chunk in reader.read(self._positions()):
                examined = journals.examine(chunk.body, chunk.proofs)
                for name in examined.since_proven:
                    for claim in pending.pop(name, ()):
                        result.add(claim, is_proven=True)
                proven = set(examined.proven)
                for claim in claims(chunk.body, topic.topic, topic_id, sources):
                    result.add(claim, is_proven=claim.row in proven)
                    if claim.row in examined.pending:
                        pending[examined.pending[claim.row]].append(claim)
        except (ClientError, SchemaError) as error:
            load.warn(f"cannot read which events agents claim: {error}")
        result.owners = journals.owners()
        return result

    def _positions(self) -> LedgerPositions:
        """Positions a day before the events landed, or before the previous run was committed."""
        latest_manifest = self._load.commit_log.latest()
        if latest_manifest is None:
            return LedgerPositions()
        since_millis = min(self._since, latest_manifest.committed) - _DAY
        return positions_since(self._load.brokers, since_millis)


class _Claims:
    """The seqs that each journal claims, by source, partition, and difference of offset and seq.

    A source names its owner. If the owner signs its journal, only what it has signed is a claim.
    """

    def __init__(self) -> None:
        self.owners: Mapping[str, str] = {}  # the signing journals, by the letters of their sources
        self._seqs: dict[tuple[str, int, int], dict[tuple[str, bool], Intervals]] = defaultdict(
            dict
        )

    def add(self, claim: Claim, *, is_proven: bool) -> None:
        journals = self._seqs[claim.source, claim.partition, claim.first - claim.seq]
        seqs = ((claim.seq, claim.seq + claim.events),)
        key = claim.journal, is_proven
        journals[key] = union(journals.get(key, ()), seqs)

    def by(self, name: Named, contender: Contender) -> str:
        """The journal that claims the event; empty if none does."""
        source, seq = name
        journals = self._seqs.get((source, contender.partition, contender.offset - seq), {})
        owner = self.owners.get(owner_of(source))
        return next(
            (
                journal
                for (journal, is_proven), seqs in journals.items()
                if has(seqs, seq) and (owner is None or (is_proven and journal == owner))
            ),
            "",
        )


def _portions(contested: Seqs) -> Iterator[dict[str, Intervals]]:
    """The events, in parts of bounded size."""
    part: dict[str, Intervals] = {}
    remaining_room = _TOGETHER
    for source, seqs in sorted(contested.items()):
        for begin, end in seqs:
            first = begin
            while first < end:
                after = min(end, first + remaining_room)
                part[source] = union(part.get(source, ()), ((first, after),))
                remaining_room -= after - first
                first = after
                if not remaining_room:
                    yield part
                    part, remaining_room = {}, _TOGETHER
    if part:
        yield part


def _places(
    manifest: Manifest, topic: Slice, contested: Seqs
) -> Iterator[tuple[Partition, Interval, dict[str, Intervals]]]:
    """Where a run landed some of these events: the partition, the range of their offsets, and their
    seqs. A run's sources are in the last passage of a leader epoch."""
    passages = [
        passage
        for passage in manifest.passages
        if (passage.topic, passage.topic_id) == (topic.topic, topic.topic_id)
    ]
    for passage in passages:
        seqs = {
            source: intervals
            for source in contested.keys() & passage.sources.keys()
            if (intervals := intersection(contested[source], half_open(passage.sources[source])))
        }
        if seqs:
            key = passage.partition, passage.leader_epoch
            epoch_passages = [
                part for part in passages if (part.partition, part.leader_epoch) == key
            ]
            offsets = (
                min(part.first for part in epoch_passages),
                max(part.next_offset for part in epoch_passages),
            )
            yield (passage.topic, passage.partition), offsets, seqs


def _buried(manifest: Manifest, log: Partition) -> Intervals:
    return merged(
        (collision.first, collision.first + collision.events)
        for collision in manifest.collisions
        if (collision.topic, collision.partition) == log
    )


def _among(
    batch: FetchedBatch, decoded: Decoded, contested: Seqs
) -> Iterator[tuple[Named, Contender]]:
    rows, sources, seqs = decoded.rows, decoded.sources, decoded.seqs
    if rows is None or sources is None or seqs is None:
        return
    indices = pc.indices_nonzero(pc.is_in(sources, value_set=pa.array(contested, sources.type)))
    if not len(indices):
        return
    columns = (sources, seqs, rows.column(_OFFSET), decoded.times)
    events_by_offset = {
        offset: (source, seq, time)
        for source, seq, offset, time in zip(
            *(column.take(indices).to_pylist() for column in columns), strict=True
        )
        if has(contested[source], seq)
    }
    for record in records(batch.data) if events_by_offset else ():
        if record.offset in events_by_offset:
            source, seq, time = events_by_offset[record.offset]
            yield (
                (source, seq),
                Contender(
                    partition=batch.partition,
                    offset=record.offset,
                    content=_content(record.key, record.value),
                    time=time,
                    leader_epoch=batch.header.leader_epoch,
                ),
            )


def _content(key: bytes | None, value: bytes | None) -> bytes:
    prefix = b"" if key is None else b"%d:" % len(key) + key
    return hashlib.sha256(prefix + b"/" + (value or b"")).digest()


def _gone(partition: int) -> Contender:
    return Contender(
        partition=partition, offset=GONE, content=b"", time=0, leader_epoch=-1, landed=True
    )
