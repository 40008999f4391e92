"""The whole task: its slice is read, decoded, and given back as files; and it says of every offset
what was seen there, and nothing else. Against a broker, and against a scripted log."""

import struct
import uuid
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from crc32c import crc32c

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import OffsetsMissing
from client.producing.producer import Producer
from ground.intervals import union
from harness.penstock.broker import BrokerProcess
from loader.decoding.batch_decoder import MOST_BROKEN
from loader.errors import DamagedBatch
from loader.landing.pieces import MOST_FILES, FileKind, hours_of_each
from loader.landing.task import land
from loader.landing.task_spec import TaskSpec, landing_job
from loader.values.batch_digests import NO_MESSAGES, UNKNOWN_CONTENT, ReadBatch, unpacked
from loader.values.reports import Account, SliceReport, half_open
from loader.values.tables import HOUR_MILLIS, Slice, hour_of
from pyspark_penstock.landing import LandingReader
from schemas.envelope import Encoder
from schemas.parsing import parse
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from tests.loader.application import event_schema
from tests.loader.landing.decoded_batches import START, a_slice, a_spec
from tests.loader.landing.staged import Files, only, report_of, rows_by_hour, written
from wire.messages.fetch import AbortedTransaction
from wire.record_batches.batch import CONTROL, CRC_START, TRANSACTIONAL, read_header
from wire.record_batches.records import Codec, Record, build_batch

SCHEMA = event_schema()
SCHEMA_ID = 41
ENCODER = Encoder(parse(SCHEMA), SCHEMA_ID)
EVENTS = 3_000
LATE = 700  # the last ones, of the hour after
BATCH = 130


def event(seq: int) -> dict[str, Any]:
    time = START + seq + (HOUR_MILLIS if seq >= EVENTS - LATE else 0)
    header = {"time": time, "host": "web-1", "app": "shop", "source": "a/1", "seq": seq}
    fields = {"user": f"u{seq % 7}", "url": f"/item/{seq}", "status": 200, "millis": seq / 8}
    return {"header": {**header, "position": seq * 200}, **fields}


@pytest.fixture(scope="module")
def topic(running_broker: BrokerProcess) -> str:
    """In its first partition: events in batches, one that is no event, and one that came twice."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, name, partitions=1)
        producer = Producer(brokers, name, codec=Codec.ZSTD)
        for seq in range(EVENTS):
            producer.send(ENCODER.encode(event(seq)), partition=0, timestamp=START + seq)
            if seq % BATCH == 0:
                producer.flush()
        producer.send(b"nothing that is framed", partition=0, timestamp=START)
        producer.send(ENCODER.encode(event(5)), partition=0, timestamp=START)
        producer.flush()
    return name


@pytest.fixture
def spec(running_broker: BrokerProcess) -> TaskSpec:
    return spec_for(running_broker.bootstrap)


@pytest.fixture
def log() -> Iterator[ScriptedLog]:
    with scripted_log() as (log, _):
        yield log


def spec_for(broker: str, **changes: Any) -> TaskSpec:
    known = {"reader_schema": SCHEMA, "writer_schemas": {SCHEMA_ID: SCHEMA}}
    return a_spec(brokers=(broker,), **known, **changes)


def slice_of(topic: str, number: int, first: int, end: int, **changes: Any) -> Slice:
    return a_slice(first, end, topic=topic, number=number, partition=0, **changes)


def test_a_partition_becomes_files(spec: TaskSpec, topic: str) -> None:
    files = written(land(slice_of(topic, 0, 0, EVENTS + 2), spec))
    report = report_of(files)
    assert report.rows == {START: EVENTS - LATE, START + HOUR_MILLIS: LATE}
    assert (report.duplicates, report.dead_count, report.no_events) == (1, 1, 0)
    assert report.next_offset == EVENTS + 2
    assert report.leader_epoch >= 0
    assert report.schema_ids == {SCHEMA_ID: EVENTS + 1}
    (run,) = report.sources
    assert (run.source, run.intervals) == ("a/1", ((0, EVENTS - 1),))

    tables = rows_by_hour(files)
    rows = pa.concat_tables([tables[hour] for hour in sorted(tables)]).to_pylist()
    header, row = event(1234).pop("header"), rows[1234]
    assert row["time"].timestamp() * 1000 == header["time"]
    expected = {**event(1234), "seq": 1234, "_topic": topic, "_partition": 0, "_offset": 1234}
    del expected["header"]
    assert {name: row[name] for name in expected} == expected
    assert [each["seq"] for each in rows] == list(range(EVENTS))

    letters = only(files, FileKind.DEAD)
    assert letters is not None
    (letter,) = letters.to_pylist()
    assert (letter["offset"], letter["value"]) == (EVENTS, b"nothing that is framed")


def test_slices_divide_a_partition(spec: TaskSpec, topic: str) -> None:
    """Wherever they are cut: every batch is landed by one of them."""
    cuts = [0, 7, 1000, 1001, EVENTS + 2]
    reports = [
        report_of(written(land(slice_of(topic, number, first, end), spec)))
        for number, (first, end) in enumerate(pairwise(cuts))
    ]
    assert sum(report.row_count for report in reports) == EVENTS + 1  # one twice: in two slices
    together = union(*(half_open(run.intervals) for report in reports for run in report.sources))
    assert together == ((0, EVENTS),)
    # As the driver does: what an earlier slice has landed, a later one is told.
    again = {"a/1": reports[0].sources[0].intervals}
    last = report_of(written(land(slice_of(topic, 3, cuts[3], cuts[4]), spec, again)))
    assert last.duplicates == 1
    batches = [batch for report in reports for batch in unpacked(report.batch_digests)]
    ends = [0, *(batch.end for batch in batches)]
    assert [batch.first for batch in batches] == ends[:-1]
    assert ends[-1] == EVENTS + 2


def test_a_batch_has_the_digest_of_its_bytes_and_the_times_of_its_rows(log: ScriptedLog) -> None:
    """Also where the slice begins within it, or lands none of its hours."""
    batches = batch(0, 10), batch(10, 702)
    other_hours = (hour_of(START) - HOUR_MILLIS,)
    for changes in ({"first": 5}, {"only_hours": other_hours}):
        report = report_of(landed(log, *batches, **changes))
        assert list(unpacked(report.batch_digests)) == [
            ReadBatch(first, end, START + first, START + end - 1, sha256(data[CRC_START:]).digest())
            for (first, end), data in zip([(0, 10), (10, 702)], batches, strict=True)
        ]


def test_slices_of_one_task_share_the_files_that_it_may_have_open(
    spec: TaskSpec, topic: str
) -> None:
    """Slices of two hours, so many that each has a file for one of them only."""
    count = MOST_FILES // 2 + 1
    whole = slice_of(topic, 0, 0, EVENTS + 2)
    rest = [slice_of(topic, number, EVENTS + 2, EVENTS + 2) for number in range(1, count)]
    reader = LandingReader(landing_job(spec, [[whole, *rest]], {}))
    (partition,) = reader.partitions()
    files = written(piece for piece in reader.read(partition) if piece.column(1)[0].as_py() == 0)
    assert list(rows_by_hour(files)) == [START]
    assert report_of(files).mixed == (START + HOUR_MILLIS,)
    assert [hours_of_each(slices) for slices in (1, 2, 16)] == [200, 200, 25]


def test_a_rebuild_lands_its_hours_only(spec: TaskSpec, topic: str) -> None:
    spec = msgspec.structs.replace(spec, only_hours=(START + HOUR_MILLIS,))
    report = report_of(written(land(slice_of(topic, 0, 0, EVENTS + 2), spec)))
    assert report.rows == {START + HOUR_MILLIS: LATE}
    assert report.other_hours == EVENTS - LATE + 2
    assert (report.duplicates, report.dead_count) == (0, 0)


def test_another_topic_of_that_name_fails_the_task(spec: TaskSpec, topic: str) -> None:
    piece = slice_of(topic, 0, 0, EVENTS, topic_id="00000000-0000-0000-0000-00000000beef")
    with pytest.raises(OffsetsMissing):
        list(land(piece, spec))


def test_a_damaged_batch_is_named(log: ScriptedLog) -> None:
    whole = build_batch([Record(10 + at, START, None, b"x") for at in range(5)], base_offset=10)
    with pytest.raises(DamagedBatch, match=r"^t-0, offsets 10 to 14: the CRC does not match$"):
        landed(log, whole[:-1] + b"?", first=10)


def test_a_rebuild_that_accepts_gaps_passes_over_damaged_batches(log: ScriptedLog) -> None:
    spoilt = bytearray(batch(10, 15))
    spoilt[-1] ^= 1
    batches = batch(0, 10), bytes(spoilt), batch(15, 20)
    with pytest.raises(DamagedBatch):  # a load would never read it again
        landed(log, *batches, accept_gap=True)
    _, account = said(log, *batches, accept_gap=True, only_hours=(hour_of(START),))
    assert (account.rows, account.missing) == (15, ((10, 14),))


def batch(first: int, end: int, *, seq: int | None = None, **changes: Any) -> bytes:
    """Of events whose numbers are their offsets, unless others are given."""
    begin = first if seq is None else seq
    offsets = changes.pop("offsets", range(first, end))
    messages = [
        Record(at, START + at, None, ENCODER.encode(event(begin + at - first))) for at in offsets
    ]
    made: dict[str, Any] = {"base_offset": first, "last_offset_delta": end - first - 1} | changes
    return build_batch(messages, **made)


def landed(
    log: ScriptedLog, *batches: bytes, first: int = 0, end: int | None = None, **changes: Any
) -> Files:
    """What becomes of the slice that reads these batches."""
    log.batches, log.end = batches, read_header(batches[-1]).next_offset
    within = changes.pop("from_within", True)
    piece = slice_of(TOPIC, 0, first, log.end if end is None else end, from_within=within)
    return written(land(piece, spec_for(str(log.brokers[1].address), **changes)))


def said(log: ScriptedLog, *batches: bytes, **changes: Any) -> tuple[SliceReport, Account]:
    """Of that slice, in one account."""
    report = report_of(landed(log, *batches, **changes))
    (account,) = report.accounts
    return report, account


def figures(account: Account) -> tuple[int, ...]:
    return (account.first, account.next_offset, account.rows, account.duplicates, account.dead)


def test_a_batch_that_begins_before_the_start_is_cut(log: ScriptedLog) -> None:
    found = landed(log, batch(0, 1), batch(1, 702), first=500)
    (account,) = report_of(found).accounts
    assert figures(account) == (500, 702, 202, 0, 0)
    (rows,) = rows_by_hour(found).values()
    assert rows.column("_offset").to_pylist() == list(range(500, 702))


def test_a_slice_behind_another_leaves_the_batch_that_it_begins_within_to_it(
    log: ScriptedLog,
) -> None:
    found, _ = said(log, batch(0, 50), batch(50, 60), first=20, from_within=False)
    assert (found.begins, found.leads, found.row_count) == (50, 0, 10)


def test_what_is_missing_in_a_log_that_is_not_compacted_fails_the_task(log: ScriptedLog) -> None:
    for batches in (
        [batch(0, 10), batch(15, 20)],
        [batch(5, 20)],
        [batch(0, 10), build_batch([], base_offset=10, last_offset_delta=4), batch(15, 20)],
    ):
        with pytest.raises(OffsetsMissing, match=r"t-0: offsets \d+ to \d+ cannot .*--accept"):
            landed(log, *batches)
    with pytest.raises(OffsetsMissing, match=r"offsets 0 to 9 .* only 8 records are left"):
        landed(log, batch(0, 10, offsets=[0, 1, 2, 5, 6, 7, 8, 9]))


HOLES = batch(10, 20, offsets=[10, 11, 15, 16, 17, 18, 19])


def test_what_is_missing_and_accepted_has_a_name(log: ScriptedLog) -> None:
    found, account = said(log, batch(5, 10), HOLES, batch(25, 30), accept_gap=True)
    assert (found.begins, found.leads, found.gives_up) == (5, 5, True)
    assert account.missing == ((12, 14), (20, 24))
    assert (account.rows, account.no_events, account.given_up) == (17, 0, 8)


def test_what_compaction_has_left(log: ScriptedLog) -> None:
    log.cleanup = "compact"
    emptied = build_batch([], base_offset=25, last_offset_delta=4)
    found, account = said(log, batch(5, 10), HOLES, emptied, batch(35, 40), end=33)
    assert (found.begins, found.leads, found.gives_up, found.next_offset) == (5, 5, False, 33)
    assert (account.rows, account.compacted, account.missing) == (12, 3 + 5 + 5 + 3, ())
    assert account.adds_up
    is_unknown = [part.digest == UNKNOWN_CONTENT for part in unpacked(found.batch_digests)]
    assert is_unknown == [False, True]


def test_transactions(log: ScriptedLog) -> None:
    aborted = batch(10, 20, attributes=TRANSACTIONAL, producer_id=7)
    abort = Record(20, START, b"\0\0\0\0", b"\0\0\0\0\0\0")
    control: dict[str, Any] = {"attributes": CONTROL | TRANSACTIONAL, "producer_id": 7}
    marker = build_batch([abort], base_offset=20, **control)
    log.aborted = (AbortedTransaction(producer_id=7, first_offset=10),)
    found, account = said(log, batch(0, 10), aborted, marker, batch(21, 25))
    assert (account.rows, account.aborted, account.markers) == (14, 10, 1)
    assert found.last is not None
    assert found.last.next_offset == 25
    no_messages = [part.digest == NO_MESSAGES for part in unpacked(found.batch_digests)]
    assert no_messages == [False, True, True, False]


def test_an_account_is_of_one_leader_epoch(log: ScriptedLog) -> None:
    epochs = ((0, 10, 2), (10, 20, 2), (20, 30, 5))
    batches = [batch(first, end, leader_epoch=epoch) for first, end, epoch in epochs]
    found = report_of(landed(log, *batches))
    accounts = [(each.first, each.next_offset, each.leader_epoch) for each in found.accounts]
    assert accounts == [(0, 20, 2), (20, 30, 5)]
    runs = [(run.leader_epoch, run.intervals) for run in found.sources]
    assert runs == [(2, ((0, 19),)), (5, ((20, 29),))]


def test_where_events_were_sent_again_is_known(log: ScriptedLog) -> None:
    again = batch(10, 15, seq=3), batch(15, 20, seq=10)
    found = report_of(landed(log, batch(0, 10), *again, batch(20, 30)))
    assert [figures(each) for each in found.accounts] == [
        (0, 10, 10, 0, 0),
        (10, 15, 0, 5, 0),
        (15, 30, 15, 0, 0),
    ]


@pytest.mark.not_quick("very many entries")
def test_a_broken_batch_of_more_records_than_can_be_named(log: ScriptedLog) -> None:
    """All of them are dead, and as many as they are."""
    count = MOST_BROKEN + 5_000
    whole = bytearray(batch(0, 3, codec=Codec.NONE))
    struct.pack_into(">i", whole, 23, count - 1)  # last offset delta
    struct.pack_into(">i", whole, 57, count)  # records
    struct.pack_into(">I", whole, 17, crc32c(whole[CRC_START:]))
    found = landed(log, bytes(whole))
    report = report_of(found)
    (account,) = report.accounts
    assert figures(account) == (0, count, 3, 0, count - 3)
    assert (report.letters, report.unnamed) == (MOST_BROKEN, count - 3 - MOST_BROKEN)
    letters = only(found, FileKind.DEAD)
    assert letters is not None
    assert letters.num_rows == MOST_BROKEN
    cut, _ = said(log, bytes(whole), first=count - 10)
    assert (cut.letters, cut.unnamed, cut.row_count) == (0, 10, 0)
