"""What is missing for a while: brokers, room on the disk, watches, the right time."""

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.processes.waiting import wait_until
from tests.system.agent.incarnations import LogFile
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop
from tests.system.faults import Faults
from tests.system.small_disk import mounted_disk

MIB = 1024 * 1024
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
DAY = 86_400.0


@pytest.fixture
def log(site: Site) -> LogFile:
    return site.file("app.log")


def in_data_dir(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_the_broker_is_away(site: Site, log: LogFile, topic: Topic) -> None:
    """The log files are the buffer: little is spooled beside them. The lag is visible. An agent
    that starts meanwhile says who is away, and waits."""
    limits = {"in_flight_bytes": 256 * 1024, "journal_bytes": MIB}
    settings = {"limits": limits, "batches": {"compression": "none", "bytes": 64 * 1024}}
    with site.agent(site.reads(topic, "*.log*"), settings=settings) as agent:
        log.write(10)
        topic.wait_for_count(10)
        shipped = log.size
        site.server.process.kill()
        until = time.monotonic() + (180 if LONG else 1.5)
        while time.monotonic() < until:
            log.write(2_000, padding=500)
            if len(log.lives) < 4:
                log.rotate()
            time.sleep(3 if LONG else 0.25)
        assert agent.alive
        assert in_data_dir(agent.data_dir) < 3 * MIB
        assert log.size - shipped > 3 * MIB
        assert any(str(path) in str(agent.status()) for path in (log.path, f"{log.path}.1"))
        agent.kill()
        before = agent.log()
        agent.spawn()
        wait_until(
            lambda: site.server.bootstrap in agent.log().removeprefix(before),
            what="it says who is away",
        )
        assert agent.alive
        site.server.start()
        topic.wait_for_count(log.lines)
        stop(agent)
    site.check(topic, log.lives)


def test_what_is_destroyed_unread_is_in_the_ledger(site: Site, topic: Topic) -> None:
    """The broker is away, so it could not be read; how much it was can be known."""
    settings = {
        "limits": {"in_flight_bytes": 64 * 1024},
        "batches": {"compression": "none", "bytes": 16 * 1024},
        "hold_deleted": {"seconds": 0.3},
    }
    truncated, deleted = logs = site.file("truncated.log"), site.file("deleted.log")
    with site.agent(site.reads(topic), settings=settings) as agent:
        for log in logs:
            log.write(10)
        topic.wait_for_count(20)
        site.server.process.kill()
        for log in logs:
            log.write(5_000, padding=500)
        time.sleep(1.0)
        os.truncate(truncated.path, 0)
        deleted.path.unlink()
        for log in logs:
            log.life.safe = 10
            log.begin()
            log.write(10)
        time.sleep(1.0)
        site.server.start()
        for log in logs:
            topic.wait_for_message(f"{log.life.name} 9 ")
        stop(agent)
    accounts = site.check(topic, truncated.lives + deleted.lives)
    for log in logs:
        lost, after = log.lives
        account, size = accounts[lost], len(lost.data)
        assert account.end == size
        assert account.bytes("lost") > size / 2
        shipped = [each for each in topic.messages if each.startswith(f"{lost.name} ")]
        assert sum(len(each) + 1 for each in shipped) + account.bytes("lost") == size
        assert accounts[after].bytes("lost") == 0
        assert agent.said("lost", str(log.path))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    with mounted_disk(tmp_path, 8) as disk:
        yield disk


def fill(path: Path) -> None:
    """Takes all the room there is."""
    with path.open("ab", buffering=0) as ballast:
        for size in (64 * 1024, 4096, 512, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue


def test_a_full_disk(site: Site, log: LogFile, topic: Topic, small_disk: Path) -> None:
    """Nothing is sent that could not be written down; all goes on when there is room."""
    settings = {"data_dir": str(small_disk / "data"), "limits": {"journal_bytes": MIB}}

    def says_so() -> bool:
        return bool(agent.said("no space left") or agent.said("full"))

    with site.agent(site.reads(topic, "*.log*"), settings=settings) as agent:
        log.write(100)
        topic.wait_for_count(100)
        ballast = small_disk / "ballast"
        fill(ballast)
        log.write(20_000, padding=200)
        log.rotate()
        log.write(100)
        wait_until(says_so, what="it says that the disk is full")
        fill(ballast)
        time.sleep(0.5)
        assert agent.alive
        assert agent.http("/healthz")[0] != 0
        ballast.unlink()
        topic.wait_for_count(log.lines)
        # Once more, and killed in this state.
        fill(ballast)
        log.write(5_000, padding=200)
        time.sleep(0.5)
        agent.kill()
        fill(ballast)
        agent.spawn()
        time.sleep(1.5)
        alive = agent.alive
        ballast.unlink()
        if not alive:
            assert says_so()
            agent.start()
        topic.wait_for_count(log.lines)
        stop(agent)
    site.check(topic, log.lives)


LIMIT = 'echo 3 > /proc/sys/user/max_inotify_watches; exec "$@"'
FEW_WATCHES = ("unshare", "-Ur", "sh", "-c", LIMIT, "sh")


def test_watches_run_out(site: Site, topic: Topic) -> None:
    """The scan finds everything all the same; it is said once."""
    may = subprocess.run([*FEW_WATCHES, "true"], capture_output=True, check=False)
    if may.returncode:
        pytest.skip("user namespaces are not allowed here")
    logs = []
    for number in range(20):
        (site.logs / str(number)).mkdir()
        logs.append(site.file(f"{number}/app{number}-.log"))
    with site.agent(site.reads(topic, "**/*.log*"), wrapper=FEW_WATCHES) as agent:
        chance = random.Random(1)
        for log in logs:
            log.write(5)
        for _ in range(3):
            for log in chance.sample(logs, 10):
                log.rotate()
                log.write(chance.randrange(1, 20))
            time.sleep(0.3)
        topic.wait_for_count(sum(log.lines for log in logs))
        assert len(agent.said("inotify")) == 1, agent.said("inotify")
        stop(agent)
    site.check(topic, [life for log in logs for life in log.lives])


def test_the_clock_jumps(site: Site, log: LogFile, topic: Topic, faults: Faults) -> None:
    """Ahead, back, far back; what waits for a time-out does not wait longer for it. A start with a
    clock that is behind is a start."""
    one = site.reads(topic, last_line_timeout=0.5)
    with site.agent(one, environment=faults.environment) as agent:
        for count, days in enumerate([0, 1, -300, 0], start=1):
            faults.move_clock(days * DAY)
            log.write()
            log.append(b"app no end")
            topic.wait_for_count(2 * count)
            wanted = (time.time() + days * DAY) * 1000
            assert abs(topic.events[-1].time - wanted) < 60_000
        assert agent.alive
        agent.kill()
        faults.move_clock(-30 * DAY)
        log.write()
        agent.start()
        topic.wait_for_message(f"app {log.lines - 1} ")
        stop(agent)
    site.check(topic, [log.life])
