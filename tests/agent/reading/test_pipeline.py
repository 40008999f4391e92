"""Reading as a whole: what is full, slow or too long stops nothing else, and loses nothing."""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.configuration.inputs import Format
from agent.encoding.topic_schemas.values import TopicSchema
from agent.journal.state import NotSeen
from agent.shipping.shipper import Shipper
from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from ground.administration.entries import Change, Kind, Program, Who, read_entry
from ground.administration.log import AdministrationLog, AdministrationLogConfig
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.agent.reading.pipeline_side import (
    OTHER_LINES,
    WITH_SEVERITY,
    PipelineSide,
    append,
    input_of,
    pipeline_side,
)
from tests.agent.shipping.agent_side import log_of, messages_in_log

HOUR: dict[str, Any] = {"batches": {"linger": 60.0}, "cpu": count(0, 60).__next__}  # and busy


def test_a_configuration_that_comes_while_the_journal_is_full_is_taken_in_the_end(
    tmp_path: Path,
) -> None:
    """What was read before goes out as it was to be then."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    before = input_of(path, "logs", app="before")
    with pipeline_side(tmp_path, before, **HOUR) as side, side.running():
        wait_until(lambda: side.position(path) == 4)
        with side.full_journal():
            side.pipeline.reload([msgspec.structs.replace(before, app="after")])
            wait_until(lambda: side.pipeline.full)
            assert side.events("logs") == []
        append(path, "two\n")
        wait_until(lambda: side.position(path) == 8)
        side.pipeline.reload([])
        wait_until(lambda: len(side.events("logs")) == 2)
        said = side.events("logs")
    found = [(each["message"], each["header"]["app"], each["header"]["seq"]) for each in said]
    assert found == [("one", "before", 0), ("two", "after", 1)]
    assert not side.pipeline.full


def test_a_new_schema_that_comes_while_the_journal_is_full_is_taken_in_the_end(
    tmp_path: Path,
) -> None:
    """A line of which a part was read by the old one is read anew by the new one."""
    files = [tmp_path / name for name in ("a.log", "b.log")]
    input_ = input_of(tmp_path / "*.log", "logs", format=Format.SYSLOG, max_line_bytes=60)
    head = "<34>1 2026-11-20T14:37:00Z host app - - - "
    with pipeline_side(tmp_path, input_, **HOUR) as side, side.running():
        files[0].write_text(f"{head}one\n")
        wait_until(lambda: side.position(files[0]) > 0)
        files[1].write_text(head + 100 * "x")
        wait_until(lambda: (intake := side.intake(files[1])) and intake._held)
        with side.full_journal():
            side.schemas.learn(input_, TopicSchema("logs", OTHER_LINES, 2, WITH_SEVERITY))
            side.pipeline.schemas_changed()
            wait_until(lambda: side.pipeline.full)
        append(files[1], "\n")
        wait_until(lambda: side.position(files[1]) > 0)
        assert side.pipeline.feeds["logs"].warning == ""
        side.pipeline.reload([])
        wait_until(lambda: len(side.events("logs")) == 2)
    found = [(each["message"], each.get("severity")) for each in side.events("logs")]
    assert found == [("one", None), (18 * "x", "crit")]


def test_a_line_that_goes_on_and_on_stops_neither_other_files_nor_the_end(tmp_path: Path) -> None:
    """A core dump, or `truncate -s 64G x.log`."""
    inputs = [input_of(tmp_path / "long.log", "long"), input_of(tmp_path / "good.log", "good")]
    long, good = (Path(each.paths[0]) for each in inputs)
    long.touch()
    os.truncate(long, 64 << 30)
    with pipeline_side(tmp_path, *inputs) as side, side.running():
        wait_until(lambda: (intake := side.intake(long)) and intake._held)
        good.write_text("one\n")
        wait_until(lambda: side.messages("good") == ["one"])
        assert side.position(long) == 0


def test_an_input_has_begun_when_the_journal_knows_its_files(tmp_path: Path) -> None:
    """Else a kill in the first moments would have an old host's logs read from their beginning."""
    path = tmp_path / "old.log"
    path.write_text("old\n")
    told: list[tuple[set[str], int]] = []
    sides: list[PipelineSide] = []

    def begun(names: Collection[str]) -> None:
        told.append((set(names), len(sides[0].journal.sources)))

    input_ = input_of(path, "logs", start="end")
    with pipeline_side(tmp_path, input_, begun=begun, seen=()) as side:
        sides.append(side)
        with side.full_journal(), side.running():
            wait_until(lambda: side.pipeline.full)
            assert told == []
        assert told == []
    with pipeline_side(tmp_path, input_, begun=begun, seen=()) as side:
        sides[:] = [side]
        side.turn()
        assert told == [({"logs"}, 1)]
        append(path, "new\n")
        side.turn(times=3)
        assert side.messages("logs") == ["new"]
        assert len(told) == 1


def test_topics_that_stand_still_leave_room_for_the_others(tmp_path: Path) -> None:
    """Each of them holds its share, all of them together not what all others need."""
    bad = [f"bad-{number}" for number in range(4)]
    inputs = [input_of(tmp_path / f"{topic}.log", topic) for topic in (*bad, "good")]
    limits = {"in_flight_bytes": 64 * 1024}
    batches = {"linger": 0.0, "compression": "none"}
    with pipeline_side(tmp_path, *inputs, limits=limits, batches=batches) as side:
        for topic in bad:
            (tmp_path / f"{topic}.log").write_text("x\n")
        for at, topic in enumerate(bad):  # one after the other comes to a stop
            for _ in range(12):
                append(tmp_path / f"{topic}.log", 7 * f"{1000 * 'y'}\n")
                side.turn()
            side.cluster.stall(*bad[: at + 1])
        (tmp_path / "good.log").write_text("one\n")
        side.turn(times=2)
        assert side.messages("good") == ["one"]
        assert all(side.shipper.in_flight(topic)[1] > 8_000 for topic in bad)
        assert side.shipper.in_flight_bytes() < 2 * side.config.limits.in_flight_bytes


def test_a_topic_that_has_its_share_is_not_read_for(tmp_path: Path) -> None:
    """Whether it stands still is not known at once."""
    inputs = [input_of(tmp_path / f"{topic}.log", topic) for topic in ("slow", "good")]
    limits = {"in_flight_bytes": 8 * 1024}
    batches = {"linger": 0.0, "compression": "none"}
    slow = tmp_path / "slow.log"
    with pipeline_side(tmp_path, *inputs, limits=limits, batches=batches) as side:
        slow.write_text(5 * f"{1000 * 'y'}\n")
        side.turn(times=2)
        append(slow, "more\n")
        (tmp_path / "good.log").write_text("one\n")
        side.turn(times=2)
        assert side.position(slow) == 5 * 1001
        assert side.messages("good") == ["one"]
        side.cluster.acknowledge("slow")
        side.turn(times=2)
        assert side.messages("slow")[-1] == "more"


def test_while_the_journal_is_full_files_are_looked_at_all_the_same(tmp_path: Path) -> None:
    """One that comes and goes meanwhile is held, and read in the end."""
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    long = 1200 * "x"  # so that what comes behind it is no news of its fingerprint
    batches = {"linger": 0.0, "compression": "none"}
    input_ = input_of(tmp_path / "*.log", "logs")
    with pipeline_side(tmp_path, input_, batches=batches) as side, side.running():
        first.write_text(f"{long}\n")
        wait_until(lambda: side.messages("logs") == [long])
        with side.full_journal():
            append(first, "two\n")
            wait_until(lambda: side.pipeline.full)
            append(first, "three\n")
            second.write_text("four\n")
            wait_until(lambda: side.position(second) == 0)
            second.unlink()
            intake = side.intake(first)
            assert intake is not None
            wait_until(lambda: intake.waits_since > intake.read_at)
        wait_until(lambda: len(side.events("logs")) == 4)
    assert sorted(side.messages("logs")) == ["four", "three", "two", long]
    assert side.eventless() == []


def test_folders_are_watched_until_the_agent_stops(tmp_path: Path) -> None:
    """Not only until its last scan. Names that change later are named if they are no input's."""
    (tmp_path / "logs").mkdir()
    logs = [tmp_path / "logs" / name for name in ("a.log", "b.log")]
    inputs = input_of(logs[0], "a"), input_of(logs[1], "b")
    with pipeline_side(tmp_path, *inputs, scan_interval=3600.0) as side, side.running():
        for log in logs:
            append(log, "one\n")
        wait_until(lambda: side.messages("a") == side.messages("b") == ["one"])
        stopped = int(time.time() * 1000)
    for log in logs:
        log.rename(f"{log}.1")
        append(log, "two\n")
    with pipeline_side(tmp_path, *inputs) as side:
        side.turn(times=2)
        unseen = [each.unwatched for each in side.journal.statements if isinstance(each, NotSeen)]
        assert all(each.from_millis >= stopped for each in unseen)
        for each, name in zip(unseen, ("a.log", "b.log"), strict=True):
            assert f"files; renamed: {name} to {name}.1; new: {name}; whether" in each.reason


TWO_REPLICAS = {"min.insync.replicas": "2"}  # there is one broker


class HeardShipper(Shipper):
    """The real one; what it is told of heartbeats is heard."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts, stand_seconds=0.5)
        self.heard: dict[str, int] = {}

    def heartbeat(self, until: Mapping[str, int], lag_bytes: int) -> None:
        self.heard = dict(until)
        super().heartbeat(until, lag_bytes)


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap), patience_seconds=60) as connected:
        yield connected


def test_topics_that_do_not_move_stop_neither_lines_nor_heartbeats_of_others(
    running_broker: BrokerProcess, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """One takes nothing, the dead letters of another stand still, and when they move, every line
    is there once."""
    good, half, bad = (f"{new_topic}-{name}" for name in ("good", "half", "bad"))
    for topic in (good, half, bad, f"{good}.dead", f"{bad}.dead", f"{half}.dead"):
        stands = topic in {bad, f"{half}.dead"}
        admin.create_topic(brokers, topic, configs=TWO_REPLICAS if stands else None)
    inputs = [
        input_of(tmp_path / f"{topic}*.log", topic, max_line_bytes=50, long_lines="dead")
        for topic in (good, half, bad)
    ]
    first, second = tmp_path / f"{half}-1.log", tmp_path / f"{half}-2.log"
    more: dict[str, Any] = {"brokers": running_broker.bootstrap.split(","), "ledger": False}
    with pipeline_side(tmp_path, *inputs, shipper=HeardShipper, **more) as side:
        shipper = side.shipper
        assert isinstance(shipper, HeardShipper)
        shipper.start()
        with side.running():
            append(tmp_path / f"{bad}.log", "one\n")
            append(first, 100 * "x" + "\n")
            wait_until(lambda: shipper.stalled().keys() == {bad, f"{half}.dead"})
            append(tmp_path / f"{good}.log", "one\n")
            append(second, "one\n")
            for topic in (good, half):
                wait_until(lambda topic=topic: shipper.counts.topics[topic].events)
            first_heard = shipper.heard.get(good, 0)
            wait_until(lambda: shipper.heard.get(good, 0) > first_heard)
            before = dict(shipper.heard)
            wait_until(lambda: shipper.heard[good] > before[good])
            assert shipper.heard[bad] == before[bad]
            append(tmp_path / f"{bad}.log", "two\n")
            for topic in (bad, f"{half}.dead"):
                admin.alter_topic(brokers, topic, {"min.insync.replicas": None})
            wait_until(lambda: side.position(tmp_path / f"{bad}.log") == 8)
            wait_until(lambda: all(shipper.heard[topic] for topic in (good, half, bad)))
        assert shipper.stop(20)
        assert len(log_of(brokers, TopicPartition(f"{half}.dead", 0))) == 1
        assert messages(brokers, bad) == ["one", "two"]
        assert messages(brokers, half) == messages(brokers, good) == ["one"]


def messages(brokers: Brokers, topic: str) -> list[str]:
    return messages_in_log(brokers, TopicPartition(topic, 0))


_ENTRIES = 300


def shipped(side: PipelineSide) -> list[str]:
    return [read_entry(line).name for line in side.messages("administration")]


def test_rotations_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "administration.log"
    config = AdministrationLogConfig(file_bytes=3_000, kept_files=200)
    log = AdministrationLog(path, config, Program("dc1", "broker 1"))
    who = Who("alice", "10.0.0.7")
    with (
        pipeline_side(tmp_path, input_of(folder / "administration.log*", "administration")) as side,
        side.running(),
    ):
        for number in range(_ENTRIES):
            log.note(who, Change(action="create", kind=Kind.TOPIC, name=f"t{number}"))
            if number % 100 == 99:
                assert log.flush(30)
                wait_until(
                    lambda: bool(shipped(side)), within=60, what="something is read", every=0.2
                )
        log.close()
        wait_until(lambda: len(shipped(side)) >= _ENTRIES, within=60, what="all", every=0.2)
        found = shipped(side)
    assert len(list(folder.iterdir())) > 20
    assert sorted(found) == sorted(f"t{number}" for number in range(_ENTRIES))
