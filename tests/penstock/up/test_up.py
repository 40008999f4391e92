"""`penstock up` as a user meets it: a whole pipeline, and what becomes of it."""

import gzip
import os
import signal
import urllib.request
from pathlib import Path

import msgspec
import pyarrow.dataset
import pytest

from audit import answers
from harness.waiting import wait_until
from penstock.directory.entrance import Entrance
from penstock.directory.places import Addresses, MirrorPorts, Places, Ports
from penstock.status.asking import Asking
from penstock.status.values import TopicStanding
from tests.penstock.up.started import (
    ALL,
    PATIENCE,
    WITH_MIRROR,
    Up,
    are_gone,
    family,
    until_standing,
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_whole_run(tmp_path: Path, base: int) -> None:
    directory = tmp_path / "my data"
    log, other = tmp_path / "app.log", tmp_path / "other.log"
    lines = iter(range(1_000_000))
    written: list[str] = []

    def write(count: int, to: Path = log) -> None:
        new = [f"line {next(lines)}" for _ in range(count)]
        with to.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        written.extend(new)

    def rotate_other() -> None:
        """By a name that nobody follows, compressed, and taken away."""
        write(100, other)
        rotated = other.rename(tmp_path / "rotated")
        (tmp_path / "rotated.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        write(10, other)

    arguments = ("--dir", str(directory))
    follows = ("--follow", f"web={tmp_path}/app.log*", "--follow", f"web={tmp_path}/other.log")
    first = ("--port-base", str(base), *follows)
    with Up(tmp_path / "first.txt", *arguments, *first) as up:
        up.until("everything runs")
        assert sorted(up.programs()) == sorted(ALL)
        up.kill(("loader", "agent", "registry"))
        write(300)
        write(50, other)
        log.rename(tmp_path / "app.log.1")
        write(200)
        up.kill(("zookeeper", "broker", "audit"))
        with Asking(Entrance(Addresses.of(Ports.beginning_at(base)))) as asking:
            until_standing(asking, lambda web: web.stored == len(written))
            up.replace("agent", rotate_other)
            until_standing(asking, lambda web: web.stored == len(written))
        pids = family(up.process.pid)
        up.interrupt()
        assert up.wait() == 0, up.said()
        assert "Everything has stopped. penstock up --dir " in up.said()
        wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")
    write(100)
    (tmp_path / "app.log").rename(tmp_path / "app.log.2")
    write(50)
    with Up(tmp_path / "second.txt", *arguments) as up:
        up.until("everything runs")
        with Asking(Entrance(Addresses.of(Ports.beginning_at(base)))) as asking:
            # A file was renamed while nothing ran: others may have come and gone.
            until_standing(asking, lambda web: web.landed == len(written), verdict="unknown")
            wait_until(lambda: loader_behind(base) == 0, within=PATIENCE, what="its group is shown")
        up.interrupt()
        assert up.wait() == 0, up.said()
    landed = pyarrow.dataset.dataset(Places(directory).warehouse / "web").to_table(["message"])
    assert sorted(landed["message"].to_pylist()) == sorted(written)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_lines_land_by_way_of_a_second_cluster(tmp_path: Path, base: int) -> None:
    """Through kills of the mirror and of what it copies into; and again at the next start."""
    directory, log = tmp_path / "data", tmp_path / "logs" / "app.log"
    log.parent.mkdir()  # its own: in no other can names change while nobody watches
    written: list[str] = []
    entrance = Entrance(Addresses.of(Ports.beginning_at(base)))
    offline = entrance.offline(MirrorPorts.beginning_at(base))

    def write() -> None:
        new = [f"line {len(written) + number}" for number in range(200)]
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        written.extend(new)

    def copied(copy: TopicStanding) -> bool:
        return copy.stored == len(written)

    arguments = ("--dir", str(directory))
    first = ("--mirror", "--port-base", str(base), "--follow", f"web={log}")
    write()
    with Up(tmp_path / "first.txt", *arguments, *first) as up, Asking(offline) as asking:
        up.until("everything runs")
        assert sorted(up.programs()) == sorted(WITH_MIRROR)
        until_standing(asking, copied, topic="dc1.web")
        up.kill(("mirror", "offline-broker", "offline-registry"))
        write()
        until_standing(asking, copied, topic="dc1.web")
        up.interrupt()
        assert up.wait() == 0, up.said()
    write()
    with Up(tmp_path / "second.txt", *arguments) as up, Asking(offline) as asking:
        until_standing(
            asking,
            lambda copy: copy.landed == len(written),
            verdict="complete",
            topic="dc1.web",
        )
        up.interrupt()
        assert up.wait() == 0, up.said()
    landed = pyarrow.dataset.dataset(Places(directory).warehouse / "dc1.web").to_table(["message"])
    assert sorted(landed["message"].to_pylist()) == sorted(written)


def loader_behind(base: int) -> int | None:
    """By how many messages of the topic web, as the audit's page has it; None where it has not."""
    url = f"{Addresses.of(Ports.beginning_at(base)).audit}/api/v1/groups?topic=web"
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = msgspec.json.decode(answer.read(), type=answers.GroupsAnswer)
    return next((each.messages for each in found.items if each.group == "penstock-loader"), None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("stage", "running"),
    [
        ("zookeeper starts", ["zookeeper"]),
        ("agent starts", ["zookeeper", "agent"]),
        ("audit starts", ["zookeeper", "broker", "registry", "agent"]),
    ],
)
def test_ctrl_c_while_it_starts(tmp_path: Path, base: int, stage: str, running: list[str]) -> None:
    with Up(tmp_path / "said.txt", "--dir", str(tmp_path / "up"), "--port-base", str(base)) as up:
        up.until(stage)
        assert set(running) <= set(up.programs())
        pids = family(up.process.pid)
        up.interrupt()
        assert up.wait() == 0, up.said()
    assert up.times("died") == 0
    wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")


@pytest.mark.timeout(600)
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, base: int) -> None:
    with Up(tmp_path / "said.txt", "--dir", str(tmp_path / "up"), "--port-base", str(base)) as up:
        up.until("broker starts")
        pids = family(up.process.pid)
        os.kill(up.programs()["broker"], signal.SIGSTOP)  # so that it cannot end in its own time
        up.interrupt()
        up.process.send_signal(signal.SIGTERM)  # another number: no two of them become one
        assert up.wait() == 0, up.said()
    assert "Everything was killed, as by a crash. " in up.said()
    wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")


def test_a_directory_that_is_removed_ends_it(tmp_path: Path, base: int) -> None:
    directory = tmp_path / "up"
    with Up(tmp_path / "said.txt", "--dir", str(directory), "--port-base", str(base)) as up:
        up.until("zookeeper starts")
        pids = family(up.process.pid)
        directory.rename(tmp_path / "elsewhere")
        assert up.wait() == 1, up.said()
    assert f"penstock up: {directory} was removed while everything ran" in up.said()
    assert "goes on where it stood" not in up.said()
    wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")


def test_ctrl_c_while_it_still_looks_whether_it_can_start(tmp_path: Path, base: int) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    asked = tmp_path / "asked"
    java.write_text(f"#!/bin/sh\ntouch {asked}\nwhile test -e {asked}; do sleep 0.01; done\n")
    java.chmod(0o755)
    arguments = ("--dir", str(tmp_path / "up"), "--port-base", str(base))
    with Up(tmp_path / "said.txt", *arguments, JAVA_HOME=str(tmp_path)) as up:
        wait_until(asked.exists, within=PATIENCE, what="Java is asked for its version")
        up.interrupt()
        asked.unlink()
        assert up.wait() == 0
    assert up.said() == "Nothing was started.\n"
