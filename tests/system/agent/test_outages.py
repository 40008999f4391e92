"""What is missing for a while: brokers, room on the disk, permissions, directories, watches."""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_until
from tests.system.agent.incarnations import Incarnation
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop
from tests.system.small_disk import mounted_disk

MIB = 1024 * 1024
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


class Log:
    """A log file of one application, which rotates it by renaming."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lives: list[Incarnation] = []
        self.rotate()

    def write(self, count: int = 1, padding: int = 0) -> None:
        life = self.lives[-1]
        first = life.data.count(b"\n")
        with self.path.open("ab") as file:
            for number in range(first, first + count):
                file.write(life.append(life.line(number, padding)))

    def rotate(self) -> None:
        if self.lives:
            self.path.rename(f"{self.path}.{len(self.lives)}")
        self.lives.append(Incarnation(f"{self.path.stem}{len(self.lives)}"))

    @property
    def lines(self) -> int:
        return sum(life.data.count(b"\n") for life in self.lives)


@pytest.fixture
def log(site: Site) -> Log:
    return Log(site.logs / "app.log")


@pytest.fixture
def topic(site: Site) -> Topic:
    return site.topic(site.new_topic())


def plain(site: Site, topic: Topic, **more: object) -> dict[str, object]:
    return {"paths": [f"{site.logs}/**/*.log*"], "topic": topic.name, **more}


def in_data_dir(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_the_broker_is_away(site: Site, log: Log, topic: Topic) -> None:
    """The log files are the buffer: little is spooled beside them. The lag is visible."""
    limits = {"in_flight_bytes": 256 * 1024, "journal_bytes": MIB}
    settings = {"limits": limits, "batches": {"compression": "none", "bytes": 64 * 1024}}
    with site.agent(plain(site, topic), settings=settings) as agent:
        log.write(10)
        topic.wait_for_count(10)
        site.server.process.kill()
        until = time.monotonic() + (180 if LONG else 1.5)
        while time.monotonic() < until:
            log.write(2_000, padding=500)
            if len(log.lives) < 4:
                log.rotate()
            time.sleep(3 if LONG else 0.25)
        assert agent.alive
        assert in_data_dir(agent.data_dir) < 3 * MIB
        lag = sum(len(life.data) for life in log.lives) - 10 * 10
        assert lag > 3 * MIB
        assert any(str(path) in str(agent.status()) for path in (log.path, f"{log.path}.1"))
        site.server.start()
        topic.wait_for_count(log.lines, within=30)
        stop(agent)
    site.check(topic, log.lives)


def test_started_while_the_broker_is_away(site: Site, log: Log, topic: Topic) -> None:
    log.write(100)
    agent = site.agent(plain(site, topic))
    agent.start()
    topic.wait_for_count(100)
    agent.kill()
    site.server.process.kill()
    log.write(100)
    agent.spawn()
    wait_until(lambda: bool(agent.said(site.server.bootstrap)), within=10, what="says who is away")
    assert agent.alive
    site.server.start()
    topic.wait_for_count(200, within=30)
    stop(agent)
    site.check(topic, log.lives)


@pytest.mark.parametrize("how", ["truncated", "deleted"])
def test_what_is_destroyed_unread_is_in_the_ledger(
    site: Site, log: Log, topic: Topic, how: str
) -> None:
    """The broker is away, so it could not be read; how much it was can be known."""
    settings = {
        "limits": {"in_flight_bytes": 64 * 1024},
        "batches": {"compression": "none", "bytes": 16 * 1024},
        "hold_deleted": {"seconds": 0.3},
    }
    with site.agent(plain(site, topic), settings=settings) as agent:
        log.write(10)
        topic.wait_for_count(10)
        site.server.process.kill()
        log.write(5_000, padding=500)
        time.sleep(1.0)
        lost = log.lives[-1]
        lost.safe = 10
        if how == "truncated":
            os.truncate(log.path, 0)
        else:
            log.path.unlink()
        log.lives.append(Incarnation("after"))
        log.write(10)
        time.sleep(1.0)
        site.server.start()
        topic.wait_for(lambda: "after 9 " in topic.messages, within=30, what="the end")
        stop(agent)
    accounts = site.check(topic, log.lives)
    account, size = accounts[lost], len(lost.data)
    assert account.end == size
    assert account.bytes("lost") > size / 2
    shipped = [each for each in topic.messages if not each.startswith("after")]
    assert sum(len(each) + 1 for each in shipped) + account.bytes("lost") == size
    assert accounts[log.lives[-1]].bytes("lost") == 0
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


def test_a_full_disk(site: Site, log: Log, topic: Topic, small_disk: Path) -> None:
    """Nothing is sent that could not be written down; all goes on when there is room."""
    settings = {"data_dir": str(small_disk / "data"), "limits": {"journal_bytes": MIB}}
    with site.agent(plain(site, topic), settings=settings) as agent:
        log.write(100)
        topic.wait_for_count(100)
        ballast = small_disk / "ballast"
        fill(ballast)
        log.write(20_000, padding=200)
        log.rotate()
        log.write(100)
        wait_until(
            lambda: bool(agent.said("no space left") or agent.said("full")),
            within=10,
            what="says that the disk is full",
        )
        fill(ballast)
        time.sleep(0.5)
        assert agent.alive
        assert agent.http("/healthz")[0] != 0
        ballast.unlink()
        topic.wait_for_count(log.lines, within=30)
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
            assert agent.said("no space left") or agent.said("full")
            agent.start()
        topic.wait_for_count(log.lines, within=30)
        stop(agent)
    site.check(topic, log.lives)


WITHOUT_PRIVILEGES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Even root may not read what its owner may not."""


def test_a_file_that_cannot_be_read(site: Site, log: Log, topic: Topic) -> None:
    secret = Log(site.logs / "secret.log")
    secret.write(5)
    secret.path.chmod(0)
    log.write(5)
    wrapper = WITHOUT_PRIVILEGES if os.geteuid() == 0 else ()
    with site.agent(plain(site, topic), wrapper=wrapper) as agent:
        topic.wait_for_count(5)
        wait_until(lambda: bool(agent.said(str(secret.path))), within=10, what="is said")
        time.sleep(1.0)
        assert len(agent.said(str(secret.path))) == 1, agent.said(str(secret.path))
        assert len(topic.read_to_end().events) == 5
        secret.path.chmod(0o600)
        topic.wait_for_count(10)
        _, again, *_ = agent.said(str(secret.path))
        assert "again" in again
        stop(agent)
    site.check(topic, log.lives + secret.lives)


def test_a_directory_that_goes_and_comes_back(site: Site, topic: Topic) -> None:
    directory = site.logs / "app"
    lives: list[Incarnation] = []
    with site.agent(plain(site, topic)) as agent:
        for round_ in range(3):
            directory.mkdir()
            log = Log(directory / "app.log")
            log.lives[-1].name = f"round{round_}"
            lives += log.lives
            log.write(10)
            topic.wait_for_count(10 * (round_ + 1))
            if round_ == 1:
                directory.rename(site.logs / "elsewhere")
            else:
                shutil.rmtree(directory)
            time.sleep(0.4)
        stop(agent)
    site.check(topic, lives)


LIMIT = 'echo 3 > /proc/sys/user/max_inotify_watches; exec "$@"'
FEW_WATCHES = ("unshare", "-Ur", "sh", "-c", LIMIT, "sh")


def test_watches_run_out(site: Site, topic: Topic) -> None:
    """The scan finds everything all the same; it is said once."""
    may = subprocess.run([*FEW_WATCHES, "true"], capture_output=True, check=False)
    if may.returncode:
        pytest.skip("user namespaces are not allowed here")
    logs = []
    for number in range(20):
        directory = site.logs / str(number)
        directory.mkdir()
        logs.append(Log(directory / f"app{number}-.log"))
    with site.agent(plain(site, topic), wrapper=FEW_WATCHES) as agent:
        chance = random.Random(1)
        for each in logs:
            each.write(5)
        for _ in range(3):
            for log in chance.sample(logs, 10):
                log.rotate()
                log.write(chance.randrange(1, 20))
            time.sleep(0.3)
        topic.wait_for_count(sum(log.lines for log in logs))
        assert len(agent.said("inotify")) == 1, agent.said("inotify")
        stop(agent)
    site.check(topic, [life for log in logs for life in log.lives])
