"""Duplicates of a run, compared with what they repeat (loader/commit/contests.py): all of them are
read again from the brokers, here in the driver, with the events that have the same source and seq.
A run without duplicates does nothing of this.

Where an event landed is known from the reports of this run, and from the manifests of former ones.
Agents' claims are read from `_audit`, if there are collisions: as late as possible, as an agent
claims an offset some seconds after it was acknowledged.
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
from client.fetcher import FetchedBatch
from client.offsets import offsets_at
from client.partition_reader import PartitionReader
from ground.intervals import Interval, Intervals, has, intersection, merged, minus, union
from ledger.claims import Claim, claims
from ledger.lookup import lookup_at
from ledger.names import LEDGER_TOPIC, topic_id_text
from ledger.reading import LedgerPositions, LedgerReader, id_of
from loader.commit.contests import GONE, Contender, Named, Settled, settled
from loader.commit.staging import Staged, sources_of
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.columns import Columns
from loader.decoding.decoded import Decoded
from loader.errors import TooManyDuplicates
from loader.landing.task_spec import TaskSpec
from loader.landing.writer_schemas import WriterSchemas
from loader.manifests import KnownSources, Manifest
from loader.reports import MOST_REPEATS, half_open, intervals_of
from loader.run.load_context import TableLoad
from loader.tables import Partition, Slice, hour_of
from schemas.errors import SchemaError
from schemas.parsing import parse
from wire.acls import Operation
from wire.messages.list_offsets import EARLIEST, LATEST
from wire.records import records

MOST_COLLISIONS: Final = 5_000  # stretches of one run: the ledger names each
_TOGETHER: Final = 100_000  # events that are compared at a time
_DAY: Final = 86_400_000
_OFFSET: Final = "_offset"
_CHUNK_BYTES: Final = 32 * 1024 * 1024

Wanted = Mapping[str, Intervals]  # seqs by source


class Comparison:
    """Of the duplicates of one run. Used once."""

    def __init__(
        self,
        load: TableLoad,
        spec: TaskSpec,
        slices: Sequence[Slice],
        left: Staged,
        known: Sequence[KnownSources],
    ) -> None:
        """`left` is what the slices have left."""
        self._load = load
        self._spec = spec
        self._slices = slices
        self._left = left
        self._known = known
        self._columns = Columns(
            parse(spec.reader_schema, strict=False),
            header=spec.header,
            with_cluster=spec.with_cluster,
        )
        self._since = load.context.now()  # from when on claims are asked for

    def settle(self, folders: Sequence[str]) -> Settled:
        """`folders` have the reports of the slices. Raises TooManyDuplicates, and what reading
        raises."""
        found = Settled()
        sources = sources_of(self._load.context.store, folders)
        with WriterSchemas(self._spec) as schemas:
            for topic in dict.fromkeys(piece.topic for piece in self._slices):
                pieces = [each for each in self._slices if each.topic == topic]
                for wanted in _portions(self._repeats(pieces)):
                    contests = self._contests(pieces, sources, wanted, schemas)
                    found.add(self._settled(pieces[0], contests))
                    if len(found.collisions) > MOST_COLLISIONS:
                        raise TooManyDuplicates(
                            f"table {self._load.name}: more than {MOST_COLLISIONS:,} stretches of"
                            f" {topic} have source and seq of other events, and other content;"
                            " nothing was committed. --max-records loads fewer at a time"
                        )
        return found

    def _repeats(self, pieces: Sequence[Slice]) -> Wanted:
        seqs: dict[str, list[Interval]] = defaultdict(list)
        for piece in pieces:
            repeats = self._left.reports[piece.number].repeats
            if len(repeats) >= MOST_REPEATS:
                raise TooManyDuplicates(
                    f"table {self._load.name}: {piece.log}, offsets {piece.first} to"
                    f" {piece.end - 1}: more than {MOST_REPEATS:,} stretches of events have a"
                    " source and seq that landed before; nothing was committed. --max-records loads"
                    " fewer at a time"
                )
            for each in repeats:
                seqs[each.source].append((each.seq, each.seq + each.events))
        return {source: merged(some) for source, some in seqs.items()}

    def _contests(
        self,
        pieces: Sequence[Slice],
        sources: Mapping[int, Wanted],
        wanted: Wanted,
        schemas: WriterSchemas,
    ) -> dict[Named, list[Contender]]:
        """All events that are wanted, in the order in which they come first."""
        contests: dict[Named, list[Contender]] = defaultdict(list)
        self._earlier(pieces[0], wanted, contests, schemas)
        for piece in pieces:
            report = self._left.reports[piece.number]
            said = [(each.source, (each.seq, each.seq + each.events)) for each in report.repeats]
            here = [
                *said,
                *((one, each) for one, some in sources[piece.number].items() for each in some),
            ]
            if not any(intersection(wanted.get(source, ()), (each,)) for source, each in here):
                continue
            end = report.next_offset
            for name, contender in self._read(piece, (piece.first, end), wanted, schemas):
                contests[name].append(contender)
        return contests

    def _earlier(
        self,
        topic: Slice,
        wanted: Wanted,
        contests: dict[Named, list[Contender]],
        schemas: WriterSchemas,
    ) -> None:
        """What landed in former runs; what is not in the log any more stands for itself."""
        left = self._known_of(topic, wanted)
        for manifest in self._former(left):
            for log, offsets, seqs in _places(manifest, topic, left):
                buried = _buried(manifest, log)
                found: dict[Named, Contender] = {}
                piece = msgspec.structs.replace(topic, partition=log[1])
                for name, contender in self._read(piece, offsets, seqs, schemas):
                    if not has(buried, contender.offset):
                        found.setdefault(name, msgspec.structs.replace(contender, landed=True))
                for name, contender in found.items():
                    contests[name].append(contender)
                    self._since = min(self._since, manifest.committed)
                for source, some in seqs.items():
                    left[source] = minus(left[source], some)
        for source, some in self._known_of(topic, wanted).items():
            for seq in (seq for first, end in some for seq in range(first, end)):
                if not contests[source, seq]:
                    contests[source, seq].append(_gone(topic.partition))

    def _known_of(self, topic: Slice, wanted: Wanted) -> dict[str, Intervals]:
        """What of it landed before."""
        found: dict[str, Intervals] = {}
        for each in self._known:
            if each.topic == topic.topic:
                for source in wanted.keys() & each.landed.keys():
                    here = intersection(wanted[source], intervals_of(each.landed[source]))
                    found[source] = union(found.get(source, ()), here)
        return found

    def _former(self, left: Wanted) -> Iterator[Manifest]:
        """The newest first, as long as anything is left to be found."""
        history = self._load.history
        for run in reversed(history.runs()):
            if not any(left.values()):
                return
            yield history.read(run)

    def _read(
        self, piece: Slice, offsets: Interval, wanted: Wanted, schemas: WriterSchemas
    ) -> Iterator[tuple[Named, Contender]]:
        """Those among these offsets that are still there, of the hours that are loaded."""
        brokers, partition = self._load.brokers, piece.partition
        earliest = offsets_at(brokers, piece.topic, [partition], EARLIEST)[partition]
        first, end = max(offsets[0], earliest), offsets[1]
        if first >= end:
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
            brokers, piece.topic, partition, first, end, topic_id=piece.topic_id, from_within=True
        )
        hours = self._spec.only_hours
        for batch in reader:
            for name, contender in _among(batch, decoder.decode(batch), wanted):
                wanted_hour = not hours or hour_of(contender.time) in hours
                if wanted_hour and first <= contender.offset < end:
                    yield name, contender

    def _settled(self, topic: Slice, contests: Mapping[Named, Sequence[Contender]]) -> Settled:
        odd = {
            name: some
            for name, some in contests.items()
            if len({each.content for each in some}) > 1
        }
        if not odd:
            return Settled()
        claimed = self._claims(topic, {source for source, _ in odd})
        told = {
            name: [msgspec.structs.replace(each, claimed=claimed.by(name, each)) for each in some]
            for name, some in odd.items()
        }
        return settled(told, topic.topic, topic.topic_id)

    def _claims(self, topic: Slice, sources: set[str]) -> "_Claims":
        """What agents claim of these sources. Where nobody can be asked, nothing."""
        found = _Claims()
        load = self._load
        topic_id = topic_id_text(UUID(topic.topic_id) if topic.topic_id else None)
        try:
            reader = LedgerReader(
                load.brokers, lookup_at(load.context.registry), chunk_bytes=_CHUNK_BYTES
            )
            for chunk in reader.read(self._positions()):
                for each in claims(chunk.body, topic.topic, topic_id, sources):
                    found.add(each)
        except (ClientError, SchemaError) as error:
            load.warn(f"which events agents claim is not known: {error}")
        return found

    def _positions(self) -> LedgerPositions:
        """From a day before the events landed, or the run before this one was committed."""
        brokers = self._load.brokers
        known = brokers.refresh([LEDGER_TOPIC])
        latest = self._load.history.latest()
        if latest is None or not known.has(LEDGER_TOPIC):
            return LedgerPositions()
        topic = known.topic(LEDGER_TOPIC, Operation.READ)
        partitions = [each.index for each in topic.partitions]
        ends = offsets_at(brokers, LEDGER_TOPIC, partitions, LATEST)
        since = min(self._since, latest.committed) - _DAY
        offsets = offsets_at(brokers, LEDGER_TOPIC, partitions, since)
        return LedgerPositions(
            known.cluster_id or "",
            id_of(topic),
            {each: at if at >= 0 else ends[each] for each, at in offsets.items()},
        )


class _Claims:
    """By how far offset and seq are apart: the seqs that a journal claims there."""

    def __init__(self) -> None:
        self._seqs: dict[tuple[str, int, int], dict[str, Intervals]] = defaultdict(dict)

    def add(self, claim: Claim) -> None:
        journals = self._seqs[claim.source, claim.partition, claim.first - claim.seq]
        seqs = ((claim.seq, claim.seq + claim.events),)
        journals[claim.journal] = union(journals.get(claim.journal, ()), seqs)

    def by(self, name: Named, contender: Contender) -> str:
        """The journal that claims it; empty if none does."""
        source, seq = name
        journals = self._seqs.get((source, contender.partition, contender.offset - seq), {})
        return next((journal for journal, seqs in journals.items() if has(seqs, seq)), "")


def _portions(wanted: Wanted) -> Iterator[dict[str, Intervals]]:
    """All of it, in parts of a bounded size."""
    part: dict[str, Intervals] = {}
    room = _TOGETHER
    for source, seqs in sorted(wanted.items()):
        for begin, end in seqs:
            first = begin
            while first < end:
                after = min(end, first + room)
                part[source] = union(part.get(source, ()), ((first, after),))
                room -= after - first
                first = after
                if not room:
                    yield part
                    part, room = {}, _TOGETHER
    if part:
        yield part


def _places(
    manifest: Manifest, topic: Slice, wanted: Wanted
) -> Iterator[tuple[Partition, Interval, dict[str, Intervals]]]:
    """Where a run landed some of it: a partition, the offsets among which it lies, and what. What a
    run says of sources stands with the last passage of a leader epoch."""
    mine = [
        each
        for each in manifest.passages
        if (each.topic, each.topic_id) == (topic.topic, topic.topic_id)
    ]
    for each in mine:
        seqs = {
            source: here
            for source in wanted.keys() & each.sources.keys()
            if (here := intersection(wanted[source], half_open(each.sources[source])))
        }
        if seqs:
            key = each.partition, each.leader_epoch
            same = [one for one in mine if (one.partition, one.leader_epoch) == key]
            offsets = min(one.first for one in same), max(one.next_offset for one in same)
            yield (each.topic, each.partition), offsets, seqs


def _buried(manifest: Manifest, log: Partition) -> Intervals:
    return merged(
        (each.first, each.first + each.events)
        for each in manifest.collisions
        if (each.topic, each.partition) == log
    )


def _among(
    batch: FetchedBatch, decoded: Decoded, wanted: Wanted
) -> Iterator[tuple[Named, Contender]]:
    rows, sources, seqs = decoded.rows, decoded.sources, decoded.seqs
    if rows is None or sources is None or seqs is None:
        return
    at = pc.indices_nonzero(pc.is_in(sources, value_set=pa.array(wanted, sources.type)))
    if not len(at):
        return
    columns = (sources, seqs, rows.column(_OFFSET), decoded.times)
    found = {
        offset: (source, seq, time)
        for source, seq, offset, time in zip(
            *(column.take(at).to_pylist() for column in columns), strict=True
        )
        if has(wanted[source], seq)
    }
    for each in records(batch.data) if found else ():
        if each.offset in found:
            source, seq, time = found[each.offset]
            yield (
                (source, seq),
                Contender(
                    partition=batch.partition,
                    offset=each.offset,
                    content=_content(each.key, each.value),
                    time=time,
                    leader_epoch=batch.header.leader_epoch,
                ),
            )


def _content(key: bytes | None, value: bytes | None) -> bytes:
    named = b"" if key is None else b"%d:" % len(key) + key
    return hashlib.sha256(named + b"/" + (value or b"")).digest()


def _gone(partition: int) -> Contender:
    return Contender(
        partition=partition, offset=GONE, content=b"", time=0, leader_epoch=-1, landed=True
    )
