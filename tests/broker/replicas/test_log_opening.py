"""Logs that are opened after something befell them: what is found, what is said, and in what order;
and a crash at any point of that says it again, and nothing else."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from broker.replicas.data_directory import Checkpoint, DataDirectory
from broker.replicas.log_losses import UNKNOWN, Withdrawal, Withdrawals
from broker.replicas.log_opening import LogOpener, OpenedLog
from broker.storage import layout
from broker.storage.config import LogConfig
from broker.storage.directory.acknowledged import AcknowledgedFile
from broker.storage.directory.identity import PARTITION_METADATA
from broker.storage.log import Log
from broker.storage.state.epochs import LeaderEpochs
from cluster.errors import Unavailable
from cluster.values import PartitionInfo
from ledger.counting.journal import CountingJournal, CountPosition, PartitionKey
from ledger.names import topic_id_text
from tests.broker.storage.log_files import (
    TOPIC_ID,
    append,
    batch,
    checkpoint,
    flush,
    log_file,
    names,
    positions,
)
from tests.cluster.conftest import a_partition
from tests.ledger.counting.encoding import COUNTERS_KEY

KEY = ("t", 0)
CONFIG = LogConfig(segment_bytes=1500)


@dataclass
class Broker:
    """As much of one as opens logs."""

    directory: Path
    broker_id: int = 1
    epoch: int = 0  # in the map
    leader: int = 1
    replicas: tuple[int, ...] = (1,)
    isr: tuple[int, ...] = (1,)
    is_away: bool = False  # the map
    clean: bool = False
    is_replaced: bool = False
    data: DataDirectory = field(init=False)
    opening: LogOpener = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.data = DataDirectory(self.directory)
        self.opening = LogOpener(
            self.data,
            AcknowledgedFile(self.directory / "acknowledged", clean=self.clean),
            Withdrawals(self.directory, clean=False, keeps_ledger=True),
            self,
            clean=self.clean,
            is_replaced=self.is_replaced,
        )

    # What the map is asked, and told

    def raise_epoch(self, _topic: str, _id: UUID, _partition: int, *, above: int) -> PartitionInfo:
        if self.is_away:
            raise Unavailable("nobody answers")
        self.epoch = max(self.epoch, above) + 1
        return self.info

    def leave_in_sync(self, _topic: str, _id: UUID, _partition: int) -> PartitionInfo:
        if len(self.isr) > 1:
            self.isr = tuple(each for each in self.isr if each != self.broker_id)
        return self.info

    @property
    def info(self) -> PartitionInfo:
        return a_partition(
            *self.replicas, leader=self.leader, leader_epoch=self.epoch, isr=self.isr
        )

    def end(self) -> None:
        self.opening.acknowledged.close()
        self.data.release()

    def restart(self) -> None:
        self.end()
        self.start()

    def open(self) -> OpenedLog:
        return self.opening.open(KEY, TOPIC_ID, self.info, CONFIG)

    def filled(self, batches: int = 30) -> OpenedLog:
        opened = self.open()
        fill(opened, batches)
        opened.log.abandon()
        return opened

    @property
    def said(self) -> list[tuple[int, int, int, int]]:
        """First, count, leader epoch, where it went on."""
        return [
            (each.first, each.count, each.leader_epoch, each.resumes)
            for each in self.opening.withdrawals
        ]


def fill(opened: OpenedLog, batches: int) -> None:
    for _ in range(batches):
        append(opened.log, batch(3), leader_epoch=opened.info.leader_epoch)
        flush(opened.log)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.end()


def epochs_of(path: Path) -> list[tuple[int, int]]:
    return LeaderEpochs.load(path / layout.LEADER_EPOCHS).entries


def test_nothing_is_said_of_what_is_all_there(broker: Broker) -> None:
    broker.filled()
    for _ in range(3):
        broker.restart()
        opened = broker.open()
        assert opened.info.leader_epoch == 0
        fill(opened, 1)
        opened.log.abandon()
    assert broker.said == []


def test_a_directory_that_is_gone(broker: Broker) -> None:
    opened = broker.filled()
    shutil.rmtree(opened.log.directory)
    broker.restart()
    again = broker.open()
    assert broker.said == [(0, 90, 1, 90)]
    assert (again.log.start_offset, again.log.end_offset, again.info.leader_epoch) == (90, 90, 1)
    assert epochs_of(again.log.directory) == [(1, 90)]
    assert again.log.epochs.end_offset_for(0, again.log.end_offset) == (0, 90)
    fill(again, 2)
    again.log.abandon()
    broker.restart()
    assert broker.open().log.end_offset == 96
    assert broker.said == [(0, 90, 1, 90)]


@pytest.mark.parametrize("left", [None, b"", b"version: 0\ntopic_id: D21cHppVSl6K"])
def test_what_a_loss_of_power_leaves_of_a_new_partition_is_made_again(
    broker: Broker, left: bytes | None
) -> None:
    path = broker.open().log.directory
    metadata = path / PARTITION_METADATA
    if left is None:
        metadata.unlink()
    else:
        metadata.write_bytes(left)
    broker.restart()
    opened = broker.open()
    assert (opened.log.topic_id, opened.log.end_offset) == (TOPIC_ID, 0)
    assert broker.said == []
    assert not list(broker.directory.glob("*-stray"))


def test_a_directory_of_nobody_that_has_records_is_kept(broker: Broker) -> None:
    opened = broker.open()
    append(opened.log, batch())
    (opened.log.directory / PARTITION_METADATA).unlink()
    broker.restart()
    assert broker.open().log.end_offset == 0
    (kept,) = broker.directory.glob("*-stray")
    assert (kept / log_file(opened.log).name).stat().st_size > 0


def test_a_file_that_was_cut(broker: Broker) -> None:
    opened = broker.filled(5)
    position = positions(opened.log)[3]
    os.truncate(log_file(opened.log), position + 20)
    broker.restart()
    again = broker.open()
    assert broker.said == [(9, 6, 1, 9)]
    assert again.log.end_offset == 9
    fill(again, 1)
    assert epochs_of(again.log.directory) == [(0, 0), (1, 9)]
    assert again.log.epochs.end_offset_for(0, 12) == (0, 9)
    again.log.abandon()


def gone(log: Log, *bases: int) -> None:
    for base in bases:
        for suffix in (".log", ".index", ".timeindex"):
            log_file(log, base, suffix).unlink()


@pytest.mark.parametrize("which", ["first", "all", "both ends"])
def test_segments_that_are_gone(broker: Broker, which: str) -> None:
    log = broker.filled().log
    bases = names(log, ".log")
    first, second, last = bases[0], bases[1], bases[-1]
    if which == "first":
        gone(log, first)
        start, end, said = second, 90, [(0, second, 1, 90)]
    elif which == "all":
        checkpoint(log)
        gone(log, *names(log, ".log"))
        start, end, said = 90, 90, [(0, 90, 1, 90)]
    else:
        gone(log, first, last)
        start, end = second, last
        said = [(0, start, 1, end), (end, 90 - end, 1, end)]
    broker.restart()
    again = broker.open().log
    assert (again.start_offset, again.end_offset) == (start, end)
    assert broker.said == said


def test_expired_and_deleted_records_are_not_lost(broker: Broker) -> None:
    opened = broker.open()
    fill(opened, 90)
    bases = names(opened.log, ".log")
    opened.log.delete_before(bases[1] + 1)
    opened.log.abandon()  # before anything was flushed
    broker.restart()
    opened = broker.open()
    assert opened.log.start_offset == bases[1] + 1
    opened.log.delete_before(bases[2] + 1)
    flush(opened.log)
    opened.log.reconfigure(LogConfig(segment_bytes=1500, retention_bytes=1000))
    assert opened.log.expire(0)
    opened.log.abandon()  # let go of, and not yet removed
    broker.restart()
    opened = broker.open()
    opened.log.reconfigure(LogConfig(segment_bytes=1500, retention_bytes=1000))
    assert opened.log.expire(0)
    flush(opened.log)
    assert min(names(opened.log, ".log")) > bases[2]
    opened.log.abandon()
    broker.restart()
    broker.open()
    assert broker.said == []


def test_a_topic_made_anew_has_lost_nothing(broker: Broker) -> None:
    opened = broker.filled()
    broker.restart()
    again = broker.opening.open(KEY, UUID(int=9), a_partition(), CONFIG)
    assert (again.log.start_offset, again.info.leader_epoch) == (0, 0)
    assert broker.said == []
    assert not opened.log.directory.samefile(next(broker.directory.glob("*-stray")))


def test_where_nothing_is_remembered_what_was_counted_is(broker: Broker) -> None:
    opened = broker.filled()
    journal = CountingJournal(broker.directory / "ledger-counter", "broker", COUNTERS_KEY)
    key = PartitionKey("t", topic_id_text(TOPIC_ID), 0)
    journal.write([], {key: CountPosition(60, leader_epoch=4)})
    (broker.directory / "acknowledged").unlink()
    shutil.rmtree(opened.log.directory)
    broker.restart()
    assert broker.open().log.start_offset == 60
    assert broker.said == [(0, UNKNOWN, 5, 60)], "below the epoch of what was counted is none"
    assert "at least" in next(iter(broker.opening.withdrawals)).reason


def test_another_data_directory(broker: Broker, tmp_path: Path) -> None:
    other = Broker(tmp_path / "other", is_replaced=True)
    assert other.open().info.leader_epoch == 1
    assert other.said == [(0, UNKNOWN, 1, 0)]
    # What is made from now on is new.
    other.opening.all_are_open({TOPIC_ID})
    assert other.opening.open(("u", 0), UUID(int=3), a_partition(), CONFIG).info.leader_epoch == 0
    assert len(other.said) == 1
    other.end()


def test_while_the_map_is_away_nothing_is_opened_and_nothing_forgotten(broker: Broker) -> None:
    opened = broker.filled()
    os.truncate(log_file(opened.log, names(opened.log, ".log")[-1]), 0)
    left = names(opened.log, ".log")[-1]
    broker.is_away = True
    for _ in range(2):
        broker.restart()
        for _ in range(2):
            with pytest.raises(Unavailable):
                broker.open()
    assert broker.said == []
    broker.is_away = False
    broker.open()
    assert broker.said == [(left, 90 - left, 1, left)]


@pytest.mark.parametrize("loss", ["removed", "cut"])
@pytest.mark.parametrize("crash", ["statement", "log", "slot"])
def test_a_crash_on_the_way_says_it_again(broker: Broker, loss: str, crash: str) -> None:
    """What was done after that point is undone, as if it never was."""
    opened = broker.filled(5)
    directory = opened.log.directory
    if loss == "removed":
        shutil.rmtree(directory)
        expected = (0, 15, 15)
    else:
        os.truncate(log_file(opened.log), positions(opened.log)[2])
        expected = (6, 9, 6)
    remembered = (broker.directory / "acknowledged").read_bytes()
    broker.restart()
    broker.open().log.abandon()
    broker.end()
    (broker.directory / "acknowledged").write_bytes(remembered)
    if crash != "slot" and loss == "removed":
        shutil.rmtree(directory)
    if crash == "statement":
        (broker.directory / "withdrawn.json").unlink()
    broker.start()
    broker.open()
    found = {(first, count, resumes) for first, count, _, resumes in broker.said}
    assert found == {expected}
    epochs = [epoch for _, _, epoch, _ in broker.said]
    assert epochs == ([2] if crash == "statement" else [1, 2])


def test_statements_are_kept_until_they_are_told(tmp_path: Path) -> None:
    found = Withdrawals(tmp_path, clean=False, keeps_ledger=True)
    for topic in ("t", "_schemas", "u"):
        found.add(a_withdrawal(topic))
    assert [(each.topic, each.number) for each in found.untold()] == [("t", 1), ("u", 3)]
    found.told([1])
    again = Withdrawals(tmp_path, clean=False, keeps_ledger=True)
    assert [each.topic for each in again.untold()] == ["u"]
    assert len(list(again)) == 3, "it is still shown"
    again = Withdrawals(tmp_path, clean=True, keeps_ledger=True)
    assert [each.topic for each in again] == ["u"]
    assert list(Withdrawals(tmp_path, clean=True, keeps_ledger=False)) == []


def a_withdrawal(topic: str) -> Withdrawal:
    return Withdrawal(
        number=0, topic=topic, topic_id="id", partition=0, leader_epoch=1, first=0, count=5,
        resumes=5, reason="", found_millis=0,
    )  # fmt: skip


# Where there are other replicas


def replicated(broker: Broker, *, leader: int, isr: tuple[int, ...]) -> None:
    broker.replicas, broker.leader, broker.isr = (1, 2, 3), leader, isr


def lose_end(broker: Broker, opened: OpenedLog) -> int:
    """Up to where it still reaches."""
    last = names(opened.log, ".log")[-1]
    os.truncate(log_file(opened.log, last), 0)
    broker.restart()
    return last


@pytest.mark.parametrize("leader", [1, 2])
def test_what_others_in_sync_have_is_not_lost(broker: Broker, leader: int) -> None:
    replicated(broker, leader=leader, isr=(1, 2, 3))
    end = lose_end(broker, broker.filled())
    again = broker.open()
    assert again.log.end_offset == end
    assert (broker.isr, broker.said) == ((2, 3), [])


def test_a_disk_that_was_replaced_begins_empty_where_others_have_it(tmp_path: Path) -> None:
    other = Broker(tmp_path / "other", is_replaced=True)
    replicated(other, leader=2, isr=(1, 2))
    assert other.open().log.end_offset == 0
    assert (other.isr, other.said) == ((2,), [])
    other.end()


def test_what_nobody_else_has_is_lost_and_said(broker: Broker) -> None:
    replicated(broker, leader=1, isr=(1,))
    end = lose_end(broker, broker.filled())
    again = broker.open()
    assert broker.isr == (1,)
    assert broker.said == [(end, 90 - end, again.info.leader_epoch, end)]


def test_one_that_was_not_in_sync_has_lost_nothing(broker: Broker) -> None:
    opened = broker.filled()
    replicated(broker, leader=2, isr=(2, 3))
    lose_end(broker, opened)
    broker.open()
    assert broker.said == []


def test_a_leader_that_starts_again_begins_an_epoch_and_a_follower_does_not(broker: Broker) -> None:
    for leader, epoch in ((1, 0), (1, 1), (2, 1)):  # it was made just now
        replicated(broker, leader=leader, isr=(1, 2, 3))
        assert broker.open().info.leader_epoch == epoch
        broker.restart()


def test_no_more_is_shown_than_was_committed_when_it_was_last_written_down(broker: Broker) -> None:
    replicated(broker, leader=2, isr=(1, 2, 3))
    broker.filled()
    broker.data.write_checkpoints({KEY: Checkpoint(0, 0, 60)})
    broker.restart()
    again = broker.open().log
    assert (again.exposed_offset, again.end_offset) == (60, 90)
    again.replicated(75)
    assert again.exposed_offset == 75
