"""Logs with files, logs at rest: no more files than there may be, and nothing owed is let go of."""

import contextlib
import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import BrokerError
from broker.replicas.open_files import Descriptors, NoRoom, OpenLogs
from broker.storage.config import LogConfig
from broker.storage.log import Log
from broker.storage.segments.files import OPEN
from tests.broker.storage.log_files import TOPIC_ID, append, batch, content, flush, offsets
from wire.framing.slices import FileSlice

OTHERS = 12  # files that a test may have open


class OneLog:
    """A log in the broker's place of a partition: what appends and reads asks first."""

    def __init__(self, directory: Path, number: int, logs: OpenLogs) -> None:
        config = LogConfig(index_interval_bytes=0)
        self.log = Log.create(directory / f"topic-{number}", TOPIC_ID, config)
        self.used = False
        self.flushes = 0
        self._logs = logs
        self._rests = True

    def rest(self) -> bool:
        self._rests = self.log.rest()
        return self._rests

    def flush(self) -> None:
        self.flushes += 1

    def wake(self, client: str = "", *, to_read: bool = False) -> None:
        self.used = True
        if self._rests:
            self._logs.admit(self, client, to_read=to_read)
            self._rests = False

    def write(self, client: str = "") -> None:
        self.wake(client)
        append(self.log, batch(3))


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[OneLog]]:
    gc.collect()  # what other tests have left open
    open_logs = OpenLogs(len(OPEN) + OTHERS)
    made = [OneLog(tmp_path, number, open_logs) for number in range(20)]
    yield made
    for each in made:
        each.log.abandon()


def test_a_new_log_has_no_file_open(logs: list[OneLog], tmp_path: Path) -> None:
    before = len(OPEN)
    log = Log.create(tmp_path / "topic-20", TOPIC_ID, LogConfig())
    assert len(OPEN) == before
    flush(log)
    assert len(OPEN) == before


def test_many_logs_share_few_files(logs: list[OneLog]) -> None:
    most = 0
    before = len(OPEN)
    for _ in range(5):
        for each in logs:
            each.write()
            flush(each.log)
            most = max(most, len(OPEN) - before)
    assert most <= OTHERS
    for each in logs:
        each.wake()
        assert offsets(each.log) == [0, 3, 6, 9, 12]


def test_what_is_used_stays_open(logs: list[OneLog]) -> None:
    favourite, *others = logs
    files = set()
    for each in others:
        favourite.write()
        flush(favourite.log)
        piece = favourite.log.read(0, 1000)
        assert piece is not None
        files.add(piece.file)
        each.write()
        flush(each.log)
    assert len(files) < len(others) / 2


def test_a_log_that_is_not_flushed_is_flushed_and_not_let_go_of(logs: list[OneLog]) -> None:
    written: list[OneLog] = []
    with pytest.raises(NoRoom, match=r"all \d+ files that logs may open are in use"):
        for each in logs:
            each.write()
            written.append(each)
    late = logs[len(written)]
    assert written
    assert all(each.flushes for each in written)
    for each in written:
        flush(each.log)
    time.sleep(0.05)  # it is not looked for again at once
    late.write()
    assert [len(offsets(each.log)) for each in written] == [1] * len(written)


@pytest.mark.not_quick("opens very many files")
@pytest.mark.parametrize("in_turns", [False, True])
def test_who_writes_to_all_leaves_room_for_who_writes_to_one(
    logs: list[OneLog], in_turns: bool
) -> None:
    """Also where the two take turns. No log of the first can rest: none of them is flushed."""
    *many, one = logs
    refused = 0
    for each in many:
        try:
            each.write("who writes to all")
        except NoRoom:
            refused += 1
        if in_turns:
            one.write("who writes to one")
            flush(one.log)
    assert refused
    one.write("who writes to one")


def test_who_may_have_less_of_the_room_does_not_make_others_wait(logs: list[OneLog]) -> None:
    one, two, three, four, five, six = logs[:6]
    for each, client in zip(
        (one, two, three, four), ("all", "all", "first", "second"), strict=True
    ):
        each.write(client)  # and there are no more files than for these
    with pytest.raises(NoRoom):
        five.write("all")
    flush(one.log)  # in the same moment
    six.write("third")


def test_who_reads_leaves_some_room_to_who_writes(logs: list[OneLog]) -> None:
    """Each for a client of its own, whose answer is not sent."""
    *many, one = logs
    for number, each in enumerate(many):
        with contextlib.suppress(NoRoom):
            each.wake(f"reader {number}", to_read=True)
            append(each.log, batch(3))  # so that it cannot rest
    one.write("who writes")


def test_files_that_clients_wait_for_are_asked_for(tmp_path: Path) -> None:
    gc.collect()
    pieces: list[FileSlice | None] = []
    asked: list[int] = []

    def let_go() -> None:
        asked.append(len(pieces))
        pieces.clear()

    open_logs = OpenLogs(len(OPEN) + OTHERS, let_go)
    made = [OneLog(tmp_path, number, open_logs) for number in range(20)]
    for each in made:
        each.write()
        flush(each.log)
        pieces.append(each.log.read(0, 1000))
    assert asked, "slices of all logs cannot be held"
    for each in made:
        each.log.abandon()


def test_unused_logs_come_to_rest(logs: list[OneLog]) -> None:
    before = len(OPEN)
    for each in logs[:3]:
        each.write()
        flush(each.log)
    open_logs = logs[0]._logs
    open_logs.rest_unused()
    assert len(OPEN) > before
    logs[0].write()
    flush(logs[0].log)
    open_logs.rest_unused()
    still = len(OPEN)
    assert before < still
    open_logs.rest_unused()
    assert len(OPEN) == before
    piece = logs[1].log.read(0, 1000)
    assert piece is not None
    assert len(content(piece)) == piece.length


@pytest.mark.parametrize(
    ("most", "wanted", "connections"),
    [(524_288, 20_000, 20_000), (4_096, 20_000, 3_000), (4_096, 500, 500), (256, 20_000, 120)],
)
def test_what_is_left_by_connections_is_for_logs(most: int, wanted: int, connections: int) -> None:
    shares = Descriptors.of(most, wanted)
    assert shares.connections == connections
    kept = most - shares.connections - shares.log_files
    assert 50 < kept < 100
    assert shares.log_files >= 40


def test_a_limit_that_is_too_low_is_named() -> None:
    with pytest.raises(BrokerError, match=r"open files is 100, a broker needs at least 256"):
        Descriptors.of(100, 20_000)
