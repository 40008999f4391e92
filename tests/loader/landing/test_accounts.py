"""What a task says of every offset of its slice: what was seen there, and nothing else."""

import struct
from typing import Any

import pytest
from crc32c import crc32c

from client.errors import OffsetsMissing
from loader.decoding.batch_decoder import MOST_BROKEN
from loader.landing.pieces import FileKind
from loader.landing.task import land
from loader.reports import Account, SliceReport
from loader.tables import Slice
from schemas.envelope import Encoder
from schemas.parsing import parse
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from tests.loader.application import event_schema
from tests.loader.landing.decoded_batches import START, a_spec
from tests.loader.landing.staged import only, report_of, rows_by_hour, written
from wire.batch import CONTROL, CRC_START, TRANSACTIONAL, read_header
from wire.messages.fetch import AbortedTransaction
from wire.records import Codec, Record, build_batch

SCHEMA = event_schema()
SCHEMA_ID = 41
ENCODER = Encoder(parse(SCHEMA), SCHEMA_ID)
ABORT = Record(0, START, b"\0\0\0\0", b"\0\0\0\0\0\0")


def events(first: int, end: int, *, seq: int | None = None, **changes: Any) -> bytes:
    """A batch of events whose numbers are their offsets, unless others are given."""
    begin = first if seq is None else seq
    offsets = changes.pop("offsets", range(first, end))
    messages = [
        Record(at, START + at, None, ENCODER.encode(event(begin + at - first))) for at in offsets
    ]
    made: dict[str, Any] = {"base_offset": first, "last_offset_delta": end - first - 1} | changes
    return build_batch(messages, **made)


def event(seq: int) -> dict[str, Any]:
    header = {"time": START + seq, "host": "web-1", "app": "shop", "source": "a/1", "seq": seq}
    fields = {"user": "u", "url": "/", "status": 200, "millis": 1.0}
    return {"header": {**header, "position": 0}, **fields}


def marker(offset: int) -> bytes:
    return build_batch(
        [ABORT._replace(offset=offset)],
        base_offset=offset,
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=7,
    )


def report(
    log: ScriptedLog, *batches: bytes, first: int = 0, end: int | None = None, **changes: Any
) -> SliceReport:
    """Of the slice that reads these batches."""
    return report_of(files(log, *batches, first=first, end=end, **changes))


def files(
    log: ScriptedLog, *batches: bytes, first: int = 0, end: int | None = None, **changes: Any
) -> Any:
    log.batches, log.end = batches, read_header(batches[-1]).next_offset
    piece = Slice(
        number=0,
        topic=TOPIC,
        topic_id="",
        cluster="c",
        partition=0,
        first=first,
        end=log.end if end is None else end,
        from_within=changes.pop("from_within", True),
    )
    spec = a_spec(
        brokers=(str(log.brokers[1].address),),
        reader_schema=SCHEMA,
        writer_schemas={SCHEMA_ID: SCHEMA},
        **changes,
    )
    return written(land(piece, spec))


def figures(account: Account) -> tuple[int, ...]:
    return (account.first, account.next_offset, account.rows, account.duplicates, account.dead)


def test_a_batch_that_begins_before_the_start_is_cut() -> None:
    with scripted_log() as (log, _):
        found = files(log, events(0, 1), events(1, 702), first=500)
    (account,) = report_of(found).accounts
    assert figures(account) == (500, 702, 202, 0, 0)
    (rows,) = rows_by_hour(found).values()
    assert rows.column("_offset").to_pylist() == list(range(500, 702))


def test_a_slice_behind_another_leaves_the_batch_that_it_begins_within_to_it() -> None:
    with scripted_log() as (log, _):
        found = report(log, events(0, 50), events(50, 60), first=20, from_within=False)
    assert (found.begins, found.leads, found.row_count) == (50, 0, 10)


def test_what_is_missing_in_a_log_that_is_not_compacted_fails_the_task() -> None:
    with scripted_log() as (log, _):
        for batches in (
            [events(0, 10), events(15, 20)],
            [events(5, 20)],
            [events(0, 10), build_batch([], base_offset=10, last_offset_delta=4), events(15, 20)],
        ):
            with pytest.raises(OffsetsMissing, match=r"t-0: offsets \d+ to \d+ cannot .*--accept"):
                report(log, *batches)
        with pytest.raises(OffsetsMissing, match=r"offsets 0 to 9 .* only 8 records are left"):
            report(log, events(0, 10, offsets=[0, 1, 2, 5, 6, 7, 8, 9]))


def test_what_is_missing_and_accepted_has_a_name() -> None:
    with scripted_log() as (log, _):
        found = report(
            log,
            events(5, 10),
            events(10, 20, offsets=[10, 11, 15, 16, 17, 18, 19]),
            events(25, 30),
            accept_gap=True,
        )
    assert (found.begins, found.leads, found.gives_up) == (5, 5, True)
    (account,) = found.accounts
    assert account.missing == ((12, 14), (20, 24))
    assert (account.rows, account.no_events, account.given_up) == (17, 0, 8)


def test_what_compaction_has_left() -> None:
    with scripted_log() as (log, _):
        log.cleanup = "compact"
        found = report(
            log,
            events(5, 10),
            events(10, 20, offsets=[10, 11, 15, 16, 17, 18, 19]),
            build_batch([], base_offset=25, last_offset_delta=4),
            events(35, 40),
            end=33,
        )
    assert (found.begins, found.leads, found.gives_up, found.next_offset) == (5, 5, False, 33)
    (account,) = found.accounts
    assert (account.rows, account.compacted, account.missing) == (12, 3 + 5 + 5 + 3, ())
    assert account.adds_up


def test_transactions() -> None:
    aborted = events(10, 20, attributes=TRANSACTIONAL, producer_id=7)
    with scripted_log() as (log, _):
        log.aborted = (AbortedTransaction(producer_id=7, first_offset=10),)
        found = report(log, events(0, 10), aborted, marker(20), events(21, 25))
    (account,) = found.accounts
    assert (account.rows, account.aborted, account.markers) == (14, 10, 1)
    assert found.last is not None
    assert found.last.next_offset == 25


def test_an_account_is_of_one_leader_epoch() -> None:
    with scripted_log() as (log, _):
        found = report(
            log,
            events(0, 10, leader_epoch=2),
            events(10, 20, leader_epoch=2),
            events(20, 30, leader_epoch=5),
        )
    assert [(each.first, each.next_offset, each.leader_epoch) for each in found.accounts] == [
        (0, 20, 2),
        (20, 30, 5),
    ]
    assert [(run.leader_epoch, run.intervals) for run in found.sources] == [
        (2, ((0, 19),)),
        (5, ((20, 29),)),
    ]


def test_where_events_were_sent_again_is_known() -> None:
    with scripted_log() as (log, _):
        found = report(
            log, events(0, 10), events(10, 15, seq=3), events(15, 20, seq=10), events(20, 30)
        )
    assert [figures(each) for each in found.accounts] == [
        (0, 10, 10, 0, 0),
        (10, 15, 0, 5, 0),
        (15, 30, 15, 0, 0),
    ]


@pytest.mark.not_quick("very many entries")
def test_a_broken_batch_of_more_records_than_can_be_named() -> None:
    """All of them are dead, and as many as they are."""
    count = MOST_BROKEN + 5_000
    whole = bytearray(events(0, 3, codec=Codec.NONE))
    struct.pack_into(">i", whole, 23, count - 1)  # last offset delta
    struct.pack_into(">i", whole, 57, count)  # records
    struct.pack_into(">I", whole, 17, crc32c(whole[CRC_START:]))
    with scripted_log() as (log, _):
        found = files(log, bytes(whole))
        cut = report(log, bytes(whole), first=count - 10)
    said = report_of(found)
    (account,) = said.accounts
    assert figures(account) == (0, count, 3, 0, count - 3)
    assert (said.letters, said.unnamed) == (MOST_BROKEN, count - 3 - MOST_BROKEN)
    letters = only(found, FileKind.DEAD)
    assert letters is not None
    assert letters.num_rows == MOST_BROKEN
    assert (cut.letters, cut.unnamed, cut.row_count) == (0, 10, 0)
