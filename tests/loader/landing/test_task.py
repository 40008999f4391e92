"""The whole task, against a broker: its slice is read, decoded, and given back as files."""

from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from client.admin import create_topic
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import OffsetsMissing
from client.producer import Producer
from ground.intervals import union
from harness.broker_process import BrokerProcess
from loader.errors import DamagedBatch
from loader.landing.pieces import MOST_FILES, FileKind, hours_of_each
from loader.landing.task import land
from loader.landing.task_spec import TaskSpec, landing_job
from loader.reports import half_open
from loader.tables import HOUR_MILLIS, Slice
from pyspark_penstock.landing import LandingReader
from schemas.envelope import Encoder
from schemas.parsing import parse
from tests.client.scripted_log import TOPIC, scripted_log
from tests.loader.application import event_schema
from tests.loader.landing.decoded_batches import START, a_spec
from tests.loader.landing.staged import only, report_of, rows_by_hour, written
from wire.records import Codec, Record, build_batch

SCHEMA = event_schema()
SCHEMA_ID = 41
EVENTS = 3_000  # some of them after the hour
LATE = 700
BATCH = 130


def event(seq: int) -> dict[str, Any]:
    """Seven hundred events of the hour after."""
    time = START + seq + (HOUR_MILLIS if seq >= EVENTS - LATE else 0)
    header = {"time": time, "host": "web-1", "app": "shop", "source": "a/1", "seq": seq}
    fields = {"user": f"u{seq % 7}", "url": f"/item/{seq}", "status": 200, "millis": seq / 8}
    return {"header": {**header, "position": seq * 200}, **fields}


@pytest.fixture
def topic(running_broker: BrokerProcess, new_topic: str) -> str:
    """In its first partition: events in batches, one that is no event, and one that came twice."""
    encoder = Encoder(parse(SCHEMA), SCHEMA_ID)
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        producer = Producer(brokers, new_topic, codec=Codec.ZSTD)
        for seq in range(EVENTS):
            producer.send(encoder.encode(event(seq)), partition=0, timestamp=START + seq)
            if seq % BATCH == 0:
                producer.flush()
        producer.send(b"nothing that is framed", partition=0, timestamp=START)
        producer.send(encoder.encode(event(5)), partition=0, timestamp=START)
        producer.flush()
    return new_topic


def slice_of(topic: str, number: int, first: int, end: int, **changes: Any) -> Slice:
    whole = Slice(
        number=number, topic=topic, topic_id="", cluster="dc1", partition=0, first=first, end=end
    )
    return msgspec.structs.replace(whole, **changes)


def spec_for(broker: BrokerProcess, **changes: Any) -> TaskSpec:
    known: dict[str, Any] = {
        "brokers": (broker.bootstrap,),
        "reader_schema": SCHEMA,
        "writer_schemas": {SCHEMA_ID: SCHEMA},
    }
    return a_spec(**known | changes)


def test_a_partition_becomes_files(running_broker: BrokerProcess, topic: str) -> None:
    files = written(land(slice_of(topic, 0, 0, EVENTS + 2), spec_for(running_broker)))
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
    expected = event(1234)
    row = rows[1234]
    assert row["time"].timestamp() * 1000 == expected["header"]["time"]
    assert {name: row[name] for name in ("user", "url", "status", "millis", "seq")} == {
        **{name: expected[name] for name in ("user", "url", "status", "millis")},
        "seq": 1234,
    }
    assert (row["_topic"], row["_partition"], row["_offset"]) == (topic, 0, 1234)
    assert [each["seq"] for each in rows] == list(range(EVENTS))

    letters = only(files, FileKind.DEAD)
    assert letters is not None
    (letter,) = letters.to_pylist()
    assert (letter["offset"], letter["value"]) == (EVENTS, b"nothing that is framed")


def test_slices_divide_a_partition(running_broker: BrokerProcess, topic: str) -> None:
    """Wherever they are cut: every batch is landed by one of them."""
    cuts = [0, 7, 1000, 1001, EVENTS + 2]
    spec = spec_for(running_broker)
    found = [
        written(land(slice_of(topic, number, first, end), spec))
        for number, (first, end) in enumerate(pairwise(cuts))
    ]
    reports = [report_of(files) for files in found]
    assert sum(report.row_count for report in reports) == EVENTS + 1  # one twice: in two slices
    together = union(*(half_open(run.intervals) for report in reports for run in report.sources))
    assert together == ((0, EVENTS),)
    # As the driver does: what an earlier slice has landed, a later one is told.
    again = {"a/1": reports[0].sources[0].intervals}
    last = report_of(written(land(slice_of(topic, 3, cuts[3], cuts[4]), spec, again)))
    assert last.duplicates == 1


def test_slices_of_one_task_share_the_files_that_it_may_have_open(
    running_broker: BrokerProcess, topic: str
) -> None:
    """Slices of two hours, so many that each has a file for one of them only."""
    count = MOST_FILES // 2 + 1
    whole = slice_of(topic, 0, 0, EVENTS + 2)
    rest = [slice_of(topic, number, EVENTS + 2, EVENTS + 2) for number in range(1, count)]
    reader = LandingReader(landing_job(spec_for(running_broker), [[whole, *rest]], {}))
    (partition,) = reader.partitions()
    files = written(piece for piece in reader.read(partition) if piece.column(1)[0].as_py() == 0)
    assert list(rows_by_hour(files)) == [START]
    assert report_of(files).mixed == (START + HOUR_MILLIS,)
    assert [hours_of_each(slices) for slices in (1, 2, 16)] == [200, 200, 25]


def test_a_slice_may_begin_within_a_batch(running_broker: BrokerProcess, topic: str) -> None:
    piece = slice_of(topic, 0, 500, 600, from_within=True)
    files = written(land(piece, spec_for(running_broker)))
    report = report_of(files)
    (rows,) = rows_by_hour(files).values()
    offsets = rows.column("_offset").to_pylist()
    assert offsets == list(range(500, report.next_offset))
    assert report.no_events == 0


def test_a_rebuild_lands_its_hours_only(running_broker: BrokerProcess, topic: str) -> None:
    spec = spec_for(running_broker, only_hours=(START + HOUR_MILLIS,))
    report = report_of(written(land(slice_of(topic, 0, 0, EVENTS + 2), spec)))
    assert report.rows == {START + HOUR_MILLIS: LATE}
    assert report.other_hours == EVENTS - LATE + 2
    assert (report.duplicates, report.dead_count) == (0, 0)


def test_what_is_not_there_fails_the_task(running_broker: BrokerProcess, topic: str) -> None:
    piece = slice_of(topic, 0, 0, EVENTS, topic_id="00000000-0000-0000-0000-00000000beef")
    with pytest.raises(OffsetsMissing):
        list(land(piece, spec_for(running_broker)))


def test_a_damaged_batch_is_named() -> None:
    whole = build_batch([Record(10 + at, START, None, b"x") for at in range(5)], base_offset=10)
    with scripted_log() as (log, _):
        log.batches, log.start, log.end = [whole[:-1] + b"?"], 10, 15
        spec = a_spec(brokers=(str(log.brokers[1].address),))
        with pytest.raises(DamagedBatch, match=r"^t-0, offsets 10 to 14: the CRC does not match$"):
            list(land(slice_of(TOPIC, 0, 10, 15), spec))
