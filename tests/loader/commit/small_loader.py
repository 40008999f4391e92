"""A loader without Spark or brokers, and a day that it loads: the log is a list, a task is a loop,
and a file has lines of JSON.

Everything that decides what is committed, when, and what becomes visible is the real thing, on a
real store. So are the steps and their order; where it stops, it has to be taken up again by
another, who must find that every event landed once."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from ground.intervals import GrowingIntervals
from ground.signatures.envelopes import Envelope
from ground.signatures.keys import SigningKey
from ledger.certificate_requests import Judgement, Request, certificate_of, time_text
from ledger.hour_certificates import Certificate, Newest, digest_of, envelope_of
from loader.certificates.drafts import draft_of, is_due
from loader.certificates.issuing import next_number, with_certificates
from loader.commit.commit_log import CommitLog, with_digests
from loader.commit.layout import no_marker, run_folder, success_marker
from loader.commit.next_state import load_manifest, next_run
from loader.commit.publishing import clean, clean_creating, publish
from loader.commit.rewrites import rewrite_manifest
from loader.commit.sources import LandedSources, seen_in
from loader.commit.staging import Staged, read_again, staged, verified
from loader.landing.pieces import PIECE_END, FileKind
from loader.landing.task_spec import Seen
from loader.planning.facts import PartitionFacts, TopicFacts
from loader.planning.plan import Plan, plan
from loader.store.store import Store
from loader.values.manifests import SEVERAL, Added, HourState, Manifest, Marker, RunKind
from loader.values.reports import ClosedIntervals, SliceReport, closed, intervals_of
from loader.values.rewrites import Rewrite, RewriteReason, Rewritten, RewrittenFile
from loader.values.tables import (
    HOUR_MILLIS,
    Hour,
    Partition,
    Slice,
    SourceTopic,
    TableSource,
    hour_folder,
    hour_of,
)
from tests.loader.commit.made_up import report, terms
from tests.loader.membership import contains

TABLE: Final = "page_views"
TOPIC: Final = "page_views"
TOPIC_ID: Final = "0f3c2c5e-8f0e-4f0e-9d0c-2b7f3a1f0c11"
DAY: Final = 86_400_000
AUDIT, LOADER = KEYS = SigningKey.new(), SigningKey.new()
Row = dict[str, int | str]


class Event(msgspec.Struct, frozen=True):
    """An event; without a source, a record that cannot be decoded."""

    source: str
    seq: int
    time: int


class Log(msgspec.Struct):
    """Batches by partition."""

    partitions: dict[int, list[list[Event]]] = {}

    def append(self, partition: int, *batches: Sequence[Event]) -> None:
        self.partitions.setdefault(partition, []).extend(list(batch) for batch in batches)

    def read(self, piece: Slice) -> Iterator[tuple[int, list[Event]]]:
        """Base offsets, and what is in the batches."""
        base = 0
        for batch in self.partitions[piece.partition]:
            if piece.first <= base < piece.end:
                yield base, batch
            base += len(batch)

    def facts(self) -> dict[str, TopicFacts]:
        return {
            TOPIC: TopicFacts(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                partitions={
                    partition: PartitionFacts(
                        leader_epoch=0, earliest=0, end=sum(len(batch) for batch in batches)
                    )
                    for partition, batches in self.partitions.items()
                },
            )
        }

    def events(self) -> Iterator[Event]:
        for batches in self.partitions.values():
            for batch in batches:
                yield from batch


class SmallLoader:
    """One process's worth of loading. `token` is its own."""

    def __init__(
        self, store: Store, log: Log, *, token: str, now: int, schema_number: int = 1
    ) -> None:
        self.schema_number = schema_number
        self.store = store
        self.log = log
        self.token = token
        self.now = now
        self.commit_log = CommitLog(store, TABLE, complete_below=0)

    def load(self) -> None:
        """Everything that there is to do: what is owed, what is new, what can be closed, what has
        columns of a former schema."""
        self.publish_unfinished()
        clean(self.store, TABLE)
        self.load_what_is_new()
        self.close_hours()
        self.rewrite_hours()
        self.commit_log.forget(10)

    def publish_unfinished(self) -> None:
        for run in self.commit_log.listed().unpublished:
            self._finish(self.commit_log.read(run))

    def load_what_is_new(self) -> None:
        latest = self.commit_log.latest()
        planned = self._plan(latest)
        if planned.nothing_to_do:
            return
        folder = run_folder(TABLE, next_run(latest), self.token)
        left = self._landed(latest, planned, folder)
        manifest = load_manifest(
            latest,
            planned,
            left,
            TABLE,
            terms(
                now=self.now,
                loader=f"small {self.token}",
                few_dead=0,
                forget_after=7 * DAY,
                schema_number=self.schema_number,
            ),
        )
        self._commit(msgspec.structs.replace(manifest, ledger_entries=1))

    def close_hours(self) -> None:
        """Merges all hours that are over and not complete yet."""
        latest = self.commit_log.latest()
        if latest is None:
            return
        closing = {
            hour: state
            for hour, state in latest.hours.items()
            if state.complete < 0 and hour + HOUR_MILLIS <= self.now
        }
        if closing:
            self._commit(self._closed(latest, closing))

    def rewrite_hours(self) -> None:
        """One hour in a run."""
        while (latest := self.commit_log.latest()) is not None:
            former = [
                (hour, state)
                for hour, state in latest.hours.items()
                if state.complete >= 0 and state.schema_number != latest.schema_number
            ]
            if not former:
                return
            (hour, state), run = former[0], next_run(latest)
            staged_path = f"{run_folder(TABLE, run, self.token)}/rewritten/{hour}.txt"
            data = b"".join(self.store.read(path) or b"" for path in state.files)
            self._stage(staged_path, data)
            manifest = rewrite_manifest(
                latest,
                [
                    Rewritten(
                        Rewrite(hour, state.files, state.bytes, 1),
                        (RewrittenFile(staged_path, state.rows, len(data)),),
                    )
                ],
                uniform=[hour],
                reason=RewriteReason.COLUMNS,
                now=self.now,
                loader=self.token,
            )
            self._commit(msgspec.structs.replace(manifest, ledger_entries=1))

    def _commit(self, manifest: Manifest) -> None:
        manifest = self._certified(with_digests(self.store, manifest))
        self.commit_log.commit(manifest)
        self._finish(manifest)

    def _certified(self, manifest: Manifest) -> Manifest:
        """With certificates of all complete hours that have changed. The audit signs everything."""
        (topic,) = manifest.topics
        due = [hour for hour, state in sorted(manifest.hours.items()) if is_due(state)]
        newest = manifest.newest_certificate
        request = Request(
            cluster="dc1",
            table=TABLE,
            destination="",
            version="1",
            number=next_number(manifest),
            previous=None if newest is None else newest.digest.hex(),
            hours=tuple(draft_of(manifest, hour, topic) for hour in due),
        )
        judgement = Judgement(judged_at=time_text(self.now), counts={}, version="1")
        previous, signed = request.previous, []
        for number, draft in enumerate(request.hours, request.number):
            certificate = certificate_of(request, draft, judgement, number, previous)
            previous = digest_of(certificate.payload)
            signed.append((Hour(draft.hour), envelope_of(certificate).and_signed(AUDIT)))
        return with_certificates(manifest, signed, LOADER)

    def _finish(self, manifest: Manifest) -> None:
        publish(self.store, manifest)
        # The ledger: entries that come twice are one.
        self.store.replace(
            f"ledger/{manifest.ledger_seq}", msgspec.json.encode((manifest.run, manifest.passages))
        )
        self.commit_log.mark_published(manifest.run)

    def _plan(self, latest: Manifest | None) -> Plan:
        source = TableSource(name=TABLE, topics=(SourceTopic(topic=TOPIC, cluster="dc1"),))
        return plan(
            source,
            self.log.facts(),
            () if latest is None else latest.topics,
            accept_gap=False,
            max_records=None,
            records_per_task=4,
        )

    def _landed(self, latest: Manifest | None, planned: Plan, folder: str) -> Staged:
        known = () if latest is None else latest.sources
        seen = seen_in(known, [piece.origin for piece in planned.slices])
        for piece in planned.slices:
            self._land(piece, _seen(seen, piece), f"{folder}/pieces")
        sources = LandedSources(known)
        left = staged(self.store, f"{folder}/pieces", sources)
        for piece in planned.slices:
            if twice := sources.twice.get(piece.number):
                self._land(piece, _more(_seen(seen, piece), twice), f"{folder}/again")
        if sources.twice:
            left = read_again(left, staged(self.store, f"{folder}/again", LandedSources()))
        counts = {file.path: len(lines(self.store, file.path)) for file in left.files}
        return verified(counts, left)

    def _land(self, piece: Slice, seen: Mapping[str, ClosedIntervals], directory: str) -> None:
        """What a task does."""
        report, files = landed(self.log, piece, seen)
        for hour, rows in files.items():
            kind, at = FileKind.ROWS, "dt=none/hour=none"
            if hour is None:
                kind = FileKind.DEAD
            else:
                at = hour_folder(hour)
            path = f"{directory}/kind={kind}/slice={piece.number}/{at}/part-0-{self.token}.c000.txt"
            self._stage(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
        path = f"{directory}/kind=report/slice={piece.number}/dt=none/hour=none/part-0.c000.txt"
        self._stage(path, msgspec.json.encode(report) + PIECE_END.encode())

    def _stage(self, path: str, data: bytes) -> None:
        """As Spark does: what is half written is seen."""
        if not self.store.root.startswith("file://"):
            self.store.replace(path, data)
            return
        file = Path(self.store.root.removeprefix("file://")) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def _closed(self, latest: Manifest, closing: Mapping[Hour, HourState]) -> Manifest:
        run = next_run(latest)
        folder = run_folder(TABLE, run, self.token)
        adds: list[Added] = []
        removes: list[str] = []
        markers: list[Marker] = []
        hours = dict(latest.hours)
        for hour, state in closing.items():
            files = state.digest_by_file
            if len(files) > 1:
                merged = b"".join(self.store.read(path) or b"" for path in files)
                added = Added(
                    staged=f"{folder}/merged/{hour}.txt",
                    path=f"{TABLE}/{hour_folder(hour)}/part-merged-{run}.parquet",
                    hour=hour,
                    rows=state.rows,
                    bytes=len(merged),
                )
                self._stage(added.staged, merged)
                adds.append(added)
                removes.extend(files)
                files = {added.path: added.digest}
            hours[hour] = msgspec.structs.replace(
                state.with_files(files),
                complete=run,
                bytes=sum(self.store.size(path) or 0 for path in state.files),
                schema_number=latest.schema_number,
            )
            markers.append(success_marker(TABLE, hour, hours[hour], run))
            markers.append(no_marker(TABLE, hour, "_INCOMPLETE"))
        return msgspec.structs.replace(
            latest,
            run=run,
            kind=RunKind.CLOSE,
            reason=None,
            committed=self.now,
            adds=tuple(adds),
            removes=tuple(removes),
            markers=tuple(markers),
            passages=(),
            hours=hours,
            ledger_seq=latest.ledger_seq + latest.ledger_entries,
            ledger_entries=1,
        )


def lines(store: Store, path: str) -> list[Row]:
    return [json.loads(line) for line in (store.read(path) or b"").splitlines()]


def landed(
    log: Log, piece: Slice, seen: Mapping[str, ClosedIntervals]
) -> tuple[SliceReport, dict[Hour | None, list[Row]]]:
    """The report of a slice, and the rows of its files; under None what cannot be decoded."""
    own: dict[str, GrowingIntervals] = defaultdict(GrowingIntervals)
    files: dict[Hour | None, list[Row]] = defaultdict(list)
    next_offset, duplicates, counted = piece.end, 0, 0
    for base, batch in log.read(piece):
        next_offset = max(next_offset, base + len(batch))
        counted += len(batch)
        for offset, event in enumerate(batch, base):
            row: Row = {"source": event.source, "seq": event.seq, "offset": offset}
            if not event.source:
                files[None].append(row)
            elif contains(seen.get(event.source, ()), event.seq) or not own[event.source].add(
                event.seq, event.seq + 1
            ):
                duplicates += 1
            else:
                files[hour_of(event.time)].append(row)
    said = report(
        piece,
        {hour: len(rows) for hour, rows in files.items() if hour is not None},
        next_offset=next_offset,
        duplicates=duplicates,
        dead=len(files.get(None, ())),
        no_events=0,
        sources={each: closed(found.intervals) for each, found in own.items() if found.intervals},
        leader_epoch=0,
        leads=0,
    )
    return said, files


def _seen(seen: Mapping[Partition, Seen], piece: Slice) -> dict[str, ClosedIntervals]:
    told = {**seen.get((piece.topic, SEVERAL), {}), **seen.get(piece.origin, {})}
    return {source: closed(intervals_of(landed)) for source, landed in told.items()}


def _more(
    seen: Mapping[str, ClosedIntervals], also: Mapping[str, ClosedIntervals]
) -> dict[str, ClosedIntervals]:
    return {source: (*seen.get(source, ()), *also.get(source, ())) for source in {*seen, *also}}


def assert_all_landed_once(store: Store, log: Log) -> None:
    """What anyone sees, and what the newest manifest says, is what the log holds: once."""
    commit_log = CommitLog(store, TABLE)
    latest = commit_log.latest()
    assert latest is not None
    assert commit_log.listed().unpublished == []
    complete = [state for state in latest.hours.values() if state.complete >= 0]
    assert {state.schema_number for state in complete} == {latest.schema_number}

    visible = [
        entry for entry in store.list_recursively(TABLE) if not entry.name.startswith(("_", "."))
    ]
    assert {entry.path for entry in visible} == {
        path for state in latest.hours.values() for path in state.files
    }
    wanted = {(each.source, each.seq): hour_of(each.time) for each in log.events() if each.source}
    found: dict[tuple[str, int], str] = {}
    for hour, state in latest.hours.items():
        rows = [row for path in state.files for row in lines(store, path)]
        assert len(rows) == state.rows
        assert all(path.startswith(f"{TABLE}/{hour_folder(hour)}/") for path in state.files)
        for row in rows:
            event = str(row["source"]), int(row["seq"])
            assert event not in found, f"{event} landed twice"
            found[event] = hour_folder(hour)
    assert found == {event: hour_folder(hour) for event, hour in wanted.items()}

    dead = [row for entry in store.list_recursively("_dead") for row in lines(store, entry.path)]
    assert len(dead) == sum(not event.source for event in log.events())
    assert len({json.dumps(row) for row in dead}) == len(dead)

    for hour, state in latest.hours.items():
        markers = {
            entry.name
            for entry in store.list(f"{TABLE}/{hour_folder(hour)}")
            if entry.name.startswith("_") and not entry.name.startswith("_LATE-")
        }
        assert markers == ({"_SUCCESS", "_CERTIFICATE.json"} if state.complete >= 0 else set())
        if state.complete >= 0:
            said = json.loads(store.read(f"{TABLE}/{hour_folder(hour)}/_SUCCESS") or b"")
            assert (said["rows"], said["files"]) == (state.rows, len(state.files))

    assert_certificates_are_whole(store, latest)
    clean(store, TABLE)
    assert store.list(f"_penstock/{TABLE}/staging") == []
    assert len(store.list("ledger")) == len(commit_log.runs())
    for run in commit_log.runs():
        manifest = commit_log.read(run)
        told = store.read(f"ledger/{manifest.ledger_seq}")
        assert told == msgspec.json.encode((run, manifest.passages))
        for passage in manifest.passages:
            counted = sum(w.rows + w.duplicates + w.dead for w in passage.windows)
            assert counted + passage.no_events == passage.next_offset - passage.first

    clean_creating(store, store.prove(), abandoned_after=-1)  # not a millisecond may have passed
    assert store.list("_penstock/~creating") == []


def assert_success_comes_after_certificates(store: Store) -> None:
    """Whenever somebody looks: who sees `_SUCCESS` has a certificate of at least these rows."""
    for entry in store.list_recursively(TABLE):
        if entry.name == "_SUCCESS":
            folder = entry.path.rpartition("/")[0]
            rows = json.loads(store.read(entry.path) or b"")["rows"]
            envelope = Envelope.decode(store.read(f"{folder}/_CERTIFICATE.json") or b"")
            assert Certificate.decode(envelope.payload).predicate.rows >= rows


def assert_certificates_are_whole(store: Store, latest: Manifest) -> None:
    """Each complete hour has one, of its files; and no number of the table is missing."""
    digests: dict[int, str] = {}
    previous: dict[int, str | None] = {}
    for hour, state in latest.hours.items():
        if state.complete < 0:
            continue
        folder = f"{TABLE}/{hour_folder(hour)}"
        envelope = Envelope.decode(store.read(f"{folder}/_CERTIFICATE.json") or b"")
        assert len(envelope.signers({key.public.fingerprint: key.public for key in KEYS})) == 2
        certificate = Certificate.decode(envelope.payload)
        assert {file.name: file.digest.sha256 for file in certificate.subject} == {
            path.removeprefix(f"{TABLE}/"): sha256(store.read(path) or b"").hexdigest()
            for path in state.files
        }
        number = certificate.predicate.number
        digests[number] = digest_of(envelope.payload)
        previous[number] = certificate.predicate.previous
        digests |= {old.number: old.sha256 for old in certificate.predicate.supersedes}
    assert sorted(digests) == list(range(1, len(digests) + 1))
    assert previous == {number: digests.get(number - 1) for number in previous}
    newest = latest.newest_certificate
    assert newest is not None
    assert (newest.number, newest.digest.hex()) == (len(digests), digests[len(digests)])
    content = store.read(f"_penstock/{TABLE}/newest_certificate.json") or b""
    statement = Newest.decode(Envelope.decode(content).payload)
    assert statement.predicate.newest.number == newest.number


BEGIN: Final = 1_795_132_800_000  # 2026-11-20, midnight
FIRST_LOAD: Final = BEGIN + HOUR_MILLIS + 600_000
SECOND_LOAD: Final = BEGIN + 3 * HOUR_MILLIS + 600_000


def first_log() -> Log:
    log = Log()
    log.append(0, _events("a", 0, 3, BEGIN), _events("a", 3, 2, BEGIN + HOUR_MILLIS))
    log.append(1, _events("b", 0, 6, BEGIN + 5_000), _events("e", 0, 2, BEGIN - 5_000))
    return log


def whole_log() -> Log:
    log = first_log()
    late = _events("c", 0, 2, BEGIN + 1_000)
    log.append(0, _events("a", 3, 2, BEGIN + HOUR_MILLIS), late)
    log.append(0, _events("a", 5, 3, BEGIN + 2 * HOUR_MILLIS), [_dead(BEGIN + 7_000)])
    log.append(1, _events("b", 6, 5, BEGIN + HOUR_MILLIS), _events("c", 1, 2, BEGIN + 1_500))
    log.append(1, _events("b", 11, 2, BEGIN + 3 * HOUR_MILLIS))
    log.append(2, _events("d", 0, 1, BEGIN + 2 * HOUR_MILLIS))
    return log


def after_first_load(store: Store) -> None:
    SmallLoader(store, first_log(), token="first", now=FIRST_LOAD).load()


def second_load(store: Store, token: str) -> SmallLoader:
    return SmallLoader(store, whole_log(), token=token, now=SECOND_LOAD, schema_number=2)


def small_log() -> Log:
    """As little as has one of everything that a commit does: a file, and a merge of two."""
    log = first_log()
    log.append(1, _events("b", 6, 1, BEGIN + HOUR_MILLIS))
    return log


def small_load(store: Store, token: str) -> SmallLoader:
    return SmallLoader(store, small_log(), token=token, now=SECOND_LOAD)


def _events(source: str, first: int, count: int, time: int) -> list[Event]:
    """The hour of an event follows from its source and number, wherever it lies."""
    return [Event(source, seq, time) for seq in range(first, first + count)]


def _dead(time: int) -> Event:
    return Event("", 0, time)
