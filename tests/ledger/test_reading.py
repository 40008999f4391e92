"""`_audit` of a broker that runs, read to its end again and again."""

import os
import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from client.admin.topics import add_partitions, create_topic, delete_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.recreated_topics import create_again
from ledger.entries import GATHERED_BYTES
from ledger.names import LEDGER_TOPIC
from ledger.reading import LedgerChunk, LedgerPositions, LedgerReader
from schemas.event_schemas import LEDGER, built_in
from tests.client.shipped_topics import delete_before
from tests.ledger.said import ENCODERS, entry
from tests.system.clients.stored import stored_batches
from wire.record_batches.records import Codec

LOOKUP = {7: built_in(LEDGER)}.get
BEGINNING = LedgerPositions()


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    """One whose `_audit` nobody else writes to."""
    directory = tmp_path_factory.mktemp("own-broker")
    with BrokerProcess(directory, zookeeper=f"{zookeeper.address}/{uuid.uuid4().hex}") as broker:
        yield broker


@pytest.fixture
def brokers(broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        if brokers.refresh([LEDGER_TOPIC]).has(LEDGER_TOPIC):
            delete_topic(brokers, LEDGER_TOPIC)
        yield brokers


@pytest.fixture
def reader(brokers: Brokers) -> LedgerReader:
    return LedgerReader(brokers, LOOKUP)


def write(brokers: Brokers, *entries: dict[str, Any], partition: int = 0) -> None:
    """Each in a batch of its own."""
    put(brokers, [ENCODERS[7].encode(each) for each in entries], partition)


def put(brokers: Brokers, values: Sequence[bytes], partition: int = 0) -> None:
    producer = Producer(brokers, LEDGER_TOPIC, codec=Codec.ZSTD)
    for value in values:
        producer.send(value, partition=partition)
        producer.flush()


def names(*chunks: LedgerChunk) -> list[tuple[str, int]]:
    """The entries in them: journal and number."""
    headers = [each for chunk in chunks for each in chunk.body.field("header").to_pylist()]
    return [(each["source"], each["seq"]) for each in headers]


def one(chunks: Iterator[LedgerChunk]) -> LedgerChunk:
    (chunk,) = chunks
    return chunk


def test_there_may_be_no_ledger_yet(brokers: Brokers, reader: LedgerReader) -> None:
    assert list(reader.read(BEGINNING)) == []
    create_topic(brokers, LEDGER_TOPIC)
    assert list(reader.read(BEGINNING)) == []


def test_only_what_is_new_is_handed_out(brokers: Brokers, reader: LedgerReader) -> None:
    create_topic(brokers, LEDGER_TOPIC, partitions=3)
    write(brokers, entry("a", 0), entry("a", 1))
    write(brokers, entry("b", 0), partition=2)
    first = one(reader.read(BEGINNING))
    assert sorted(names(first)) == [("a", 0), ("a", 1), ("b", 0)]
    assert (first.restarted, first.gap, first.left_out, first.to_come) == (False, False, 0, 0)
    known = brokers.refresh([LEDGER_TOPIC])
    topic_id = str(known.topic(LEDGER_TOPIC).id)
    assert first.positions == LedgerPositions(
        known.cluster_id or "", topic_id, {0: 2, 1: 0, 2: 1}, {0: 0, 1: 0, 2: 0}
    )

    assert list(reader.read(first.positions)) == []
    write(brokers, entry("c", 0), partition=1)
    second = one(reader.read(first.positions))
    assert names(second) == [("c", 0)]
    assert second.positions.offsets == {0: 2, 1: 1, 2: 1}

    add_partitions(brokers, LEDGER_TOPIC, 4)
    write(brokers, entry("d", 0), partition=3)
    third = one(LedgerReader(brokers, LOOKUP).read(second.positions))
    assert (names(third), third.restarted, third.gap) == ([("d", 0)], False, False)


def test_whoever_stops_after_a_chunk_goes_on_from_its_positions(
    brokers: Brokers, reader: LedgerReader
) -> None:
    create_topic(brokers, LEDGER_TOPIC, partitions=2)
    put(brokers, [b"no entry"])
    noise = random.Random(1)
    for partition in (0, 1):
        journal = f"j{partition}"
        large = [entry(journal, seq, host=noise.randbytes(300_000).hex()) for seq in range(16)]
        write(brokers, *large, partition=partition)
    written = sorted((journal, seq) for journal in ("j0", "j1") for seq in range(16))

    assert sorted(names(one(reader.read(BEGINNING)))) == written
    reader = LedgerReader(brokers, LOOKUP, chunk_bytes=1)
    whole = list(reader.read(BEGINNING))
    assert sorted(names(*whole)) == written
    assert len(whole) == 1 + 32 * 300_000 // GATHERED_BYTES
    to_come = [each.to_come for each in whole]
    assert to_come == [32 - len(names(*whole[: at + 1])) for at in range(len(whole))]

    assert [each.left_out for each in whole] == [1, *([0] * (len(whole) - 1))]

    for at, chunk in enumerate(whole):
        rest = list(reader.read(chunk.positions))
        assert sorted(names(*whole[: at + 1], *rest)) == written


def test_no_partition_is_far_ahead_of_the_others_in_time(brokers: Brokers) -> None:
    """The second begins earlier, and the third ends later. Some hosts have wrong clocks."""
    create_topic(brokers, LEDGER_TOPIC, partitions=3)
    noise = random.Random(1)
    producer = Producer(brokers, LEDGER_TOPIC, batch_bytes=1, codec=Codec.ZSTD)
    times = {0: range(20, 40), 1: range(40), 2: range(20, 60)}
    for partition, mine in times.items():
        for time in mine:
            value = entry(f"j{partition}", time, host=noise.randbytes(280_000).hex())
            wrong = {1: 0, 6: 2**40}.get(time % 8, time)
            producer.send(ENCODERS[7].encode(value), partition=partition, timestamp=wrong)
    producer.flush()
    read: dict[int, int] = dict.fromkeys(times, 0)
    for chunk in LedgerReader(brokers, LOOKUP, chunk_bytes=1).read(BEGINNING):
        read |= chunk.positions.offsets
        newest = max(mine[read[at] - 1] for at, mine in times.items() if read[at])
        to_come = [mine[read[at]] for at, mine in times.items() if read[at] < len(mine)]
        assert newest - min(to_come, default=newest) <= 10


@pytest.mark.parametrize(
    "other",
    [
        {"topic_id": "another"},
        {"cluster_id": "another"},
        {"offsets": {0: 2}},
        {"offsets": {0: 0, 1: 0}},
    ],
)
def test_another_ledger_is_read_from_its_beginning(
    brokers: Brokers, reader: LedgerReader, other: dict[str, Any]
) -> None:
    write(brokers, entry("a", 0))
    true = one(reader.read(BEGINNING)).positions
    chunk = one(reader.read(msgspec.structs.replace(true, **other)))
    assert (names(chunk), chunk.restarted, chunk.positions) == ([("a", 0)], True, true)


def test_a_ledger_that_was_made_anew_is_noticed(brokers: Brokers, reader: LedgerReader) -> None:
    write(brokers, entry("a", 0))
    before = one(reader.read(BEGINNING)).positions
    delete_topic(brokers, LEDGER_TOPIC)
    assert list(reader.read(before)) == []
    create_again(brokers, LEDGER_TOPIC)
    empty = one(reader.read(before))
    assert (names(empty), empty.restarted, empty.positions.offsets) == ([], True, {})
    write(brokers, entry("b", 0), entry("b", 1))
    for positions, restarted in ((before, True), (empty.positions, False)):
        chunk = one(reader.read(positions))
        assert (names(chunk), chunk.restarted) == ([("b", 0), ("b", 1)], restarted)


def test_a_ledger_that_was_cut_is_noticed_however_long_it_is_by_now(
    broker: BrokerProcess, brokers: Brokers, reader: LedgerReader
) -> None:
    """By a reader that saw nothing of it while it was short."""
    write(brokers, *(entry("a", seq) for seq in range(6)))
    before = one(reader.read(BEGINNING)).positions
    assert before.offsets == {0: 6}
    broker.kill()
    cut = list(stored_batches(broker.partition_dir(LEDGER_TOPIC)))[3]
    os.truncate(cut.file, cut.position)
    broker.start()
    brokers.persist(lambda: write(brokers, entry("b", 0)))
    for seq, longer in ((1, 5), (2, 6), (3, 7)):
        write(brokers, entry("b", seq))
        chunk = one(reader.read(before))
        assert (chunk.restarted, chunk.positions.offsets) == (True, {0: longer})
        after = [("b", number) for number in range(seq + 1)]
        assert names(chunk) == [("a", 0), ("a", 1), ("a", 2), *after]
    assert list(reader.read(chunk.positions)) == []


def test_another_leader_of_the_same_log_is_no_other_ledger(
    broker: BrokerProcess, brokers: Brokers, reader: LedgerReader
) -> None:
    """What was read ended where the leader's epoch did."""
    write(brokers, entry("a", 0))
    before = one(reader.read(BEGINNING)).positions
    write(brokers, entry("a", 1))
    broker.kill()
    (cut,) = list(stored_batches(broker.partition_dir(LEDGER_TOPIC)))[1:]
    os.truncate(cut.file, cut.position)
    broker.start()
    brokers.persist(lambda: write(brokers, entry("b", 0)))
    chunk = one(reader.read(before))
    assert (names(chunk), chunk.restarted) == ([("b", 0)], False)
    assert list(reader.read(chunk.positions)) == []


def test_entries_that_are_gone_before_they_were_read_are_told(
    brokers: Brokers, reader: LedgerReader
) -> None:
    write(brokers, *(entry("a", seq) for seq in range(3)))
    first = one(reader.read(BEGINNING))
    delete_before(brokers, LEDGER_TOPIC, 2)
    assert list(reader.read(first.positions)) == []
    for reached, gap in ((0, True), (1, True), (2, False)):
        before = msgspec.structs.replace(first.positions, offsets={0: reached})
        chunk = one(reader.read(before))
        assert (names(chunk), chunk.gap, chunk.positions) == ([("a", 2)], gap, first.positions)


def test_a_batch_whose_first_entries_are_gone_is_read(
    brokers: Brokers, reader: LedgerReader
) -> None:
    """It is there as a whole, and an entry that was read before is the same entry."""
    producer = Producer(brokers, LEDGER_TOPIC)
    for seq in range(3):
        producer.send(ENCODERS[7].encode(entry("a", seq)))
    producer.flush()
    delete_before(brokers, LEDGER_TOPIC, 1)
    chunk = one(reader.read(BEGINNING))
    assert names(chunk) == [("a", 0), ("a", 1), ("a", 2)]
    assert (chunk.gap, chunk.positions.offsets) == (True, {0: 3})


def test_what_cannot_be_read_is_left_out_and_counted(
    brokers: Brokers, reader: LedgerReader
) -> None:
    good = [ENCODERS[7].encode(entry("a", seq)) for seq in range(2)]
    put(brokers, [good[0], b"no entry", b"\0", good[1]])
    chunk = one(reader.read(BEGINNING))
    assert (names(chunk), chunk.left_out) == ([("a", 0), ("a", 1)], 2)
    put(brokers, [b"no entry"])
    chunk = one(reader.read(chunk.positions))
    assert (names(chunk), chunk.left_out) == ([], 1)
    assert list(reader.read(chunk.positions)) == []


def test_a_batch_that_is_damaged_is_passed_over(
    broker: BrokerProcess, brokers: Brokers, reader: LedgerReader, caplog: pytest.LogCaptureFixture
) -> None:
    write(brokers, entry("a", 0), entry("a", 1, host="spoilt"), entry("a", 2))
    producer = Producer(brokers, LEDGER_TOPIC)  # not compressed: its bytes can be found
    for seq in (3, 4, 5):
        producer.send(ENCODERS[7].encode(entry("a", seq, host="spoilt" * (seq < 5))), partition=0)
        if seq > 3:
            producer.flush()
    (log,) = broker.partition_dir(LEDGER_TOPIC).glob("*.log")
    whole = log.read_bytes()
    at = whole.rindex(b"spoilt")
    with log.open("r+b") as file:
        file.seek(at)
        file.write(b"?")
    chunk = one(reader.read(BEGINNING))
    assert names(chunk) == [("a", 0), ("a", 1), ("a", 2), ("a", 5)]
    assert (chunk.left_out, chunk.positions.offsets) == (2, {0: 6})
    assert "_audit-0, offset 3: the CRC does not match" in caplog.text
