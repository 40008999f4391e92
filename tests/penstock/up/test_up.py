"""`penstock up` as a user meets it: a whole pipeline, and what becomes of it."""

import gzip
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from audit.api import answers
from harness.processes.waiting import wait_until
from penstock.directory.locks import ADMIN, TOKENS, USERS, Locks
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import Addresses, MirrorPorts, Places, Ports
from penstock.status.collector import StatusCollector
from tests.penstock.running import penstock
from tests.penstock.up.started import (
    ALL,
    PATIENCE,
    WITH_MIRROR,
    Up,
    WrittenLog,
    family,
    free_base,
    wait_until_gone,
    wait_until_status,
)


@pytest.fixture
def base() -> int:
    return free_base()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_an_open_pipeline_to_one_behind_locks(
    tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through kills of every program, of all at once, and rotations that nobody watches: each line
    lands once. The files of `web` are renamed while nothing runs, those of `shop` never."""
    places, ports = Places(tmp_path / "my data"), Ports.beginning_at(base)
    web, other = WrittenLog(tmp_path / "app.log"), tmp_path / "other.log"
    shop = WrittenLog(tmp_path / "logs" / "shop.log")
    shop.path.parent.mkdir()  # its own: in no other can names change while nobody watches
    locks = Locks.of(places)
    open_to_all = PipelineAccess(Addresses.of(ports))

    def rotate_other() -> None:
        """By a name that nobody follows, compressed, and taken away."""
        web.write(100, other)
        rotated = other.rename(tmp_path / "rotated")
        (tmp_path / "rotated.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        web.write(10, other)

    places.directory.mkdir(mode=0o755)  # it was there before
    directory = ("--dir", str(places.directory), "--load-every", "10s")
    followed = (f"web={tmp_path}/app.log*", f"web={other}", f"shop={shop.path}")
    follow = [word for each in followed for word in ("--follow", each)]
    with Up(tmp_path / "open.txt", *directory, "--port-base", str(base), *follow) as up:
        up.until("all programs run")
        assert sorted(up.programs()) == sorted(ALL)
        up.kill(("loader", "agent"))
        os.kill(up.programs()["registry"], signal.SIGSTOP)
        restarted = penstock("up", "--restart", "registry", *directory[:2])
        assert (restarted.returncode, restarted.stdout) == (0, "registry runs again.\n")
        web.write(300)
        web.write(50, other)
        web.path.rename(tmp_path / "app.log.1")
        web.write(200)
        shop.write(50)
        up.kill(("zookeeper", "broker", "audit"))
        with StatusCollector(open_to_all) as collector:
            wait_until_status(collector, web.are_stored)
            up.replace("agent", rotate_other)
            wait_until_status(collector, web.are_stored)
            wait_until_status(collector, shop.are_stored, topic="shop")
            wait_until(lambda: loader_lag(base) == 0, within=PATIENCE, what="it is shown")
        pids = family(up.process.pid)
        up.stop()
        assert "The pipeline has stopped. penstock up --dir " in up.said()
        wait_until_gone(pids)
    assert not locks.folder.exists()

    web.write(100)
    web.path.rename(tmp_path / "app.log.2")
    web.write(50)
    shop.write(50)
    locked = PipelineAccess.of(places, ports, secure=True)
    with (
        Up(tmp_path / "locked.txt", *directory, "--secure") as up,
        StatusCollector(locked) as collector,
    ):
        wait_until_status(collector, web.are_stored)
        assert up.times("this pipeline was open and is now secure") == 1
        pids = family(up.process.pid)
        assert_private(places, pids)
        up.process.kill()
        assert up.wait() < 0
        wait_until_gone(pids)
    made = {path: path.read_bytes() for path in secrets_of(locks)}

    shop.write(50)
    pipeline_access = PipelineAccess.of(places, ports, secure=True)
    with (
        Up(tmp_path / "again.txt", *directory) as up,
        StatusCollector(pipeline_access) as collector,
    ):
        up.until("all programs run: dashboard https://")
        # A file was renamed while nothing ran: others may have come and gone.
        wait_until_status(collector, web.are_landed, verdict="unknown")
        wait_until_status(
            collector,
            lambda topic: shop.are_landed(topic) and topic.state == "complete",
            topic="shop",
        )
        assert sorted(up.programs()) == sorted(ALL)
        assert {path: path.read_bytes() for path in secrets_of(locks)} == made
        assert_kept_secret(made, family(up.process.pid), places.directory, tmp_path)
        assert_refused(Addresses.of(ports, secure=True))
        for name, value in variables(places.environment).items():
            monkeypatch.setenv(name, value)
        assert_served()
        up.stop()
    web.assert_landed_once(places.warehouse / "web")
    shop.assert_landed_once(places.warehouse / "shop")
    assert "not authorized" not in places.log("broker").read_text()


def loader_lag(base: int) -> int | None:
    """By how many messages of the topic web it is behind, as the audit's page has it."""
    url = f"{Addresses.of(Ports.beginning_at(base)).audit}/api/v1/groups?topic=web"
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = msgspec.json.decode(answer.read(), type=answers.GroupsAnswer)
    return next((each.messages for each in found.items if each.group == "penstock-loader"), None)


def reports_of(base: int) -> set[str]:
    """The programs whose health the audit knows from the ledger."""
    url = f"{Addresses.of(Ports.beginning_at(base)).audit}/api/v1/health?size=100"
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = msgspec.json.decode(answer.read(), type=answers.HealthAnswer)
    known = {row.program for row in found.items if row.program == "zookeeper" or row.started > 0}
    agents = (row for row in found.items if row.program == "agents" and row.version)
    return known | {"agent" for _ in agents}


def secrets_of(locks: Locks) -> list[Path]:
    """Files of which nothing may stand anywhere else."""
    passwords = [locks.password(user) for user in USERS]
    return [*passwords, *(locks.token(user) for user in TOKENS), locks.authority / "ca.key"]


def assert_kept_secret(
    secrets: dict[Path, bytes], pids: Iterable[int], directory: Path, outputs: Path
) -> None:
    """Neither in files, of which logs and states of programs are some, nor in processes."""
    said = {
        path: path.read_bytes()
        for path in [*directory.rglob("*"), *outputs.glob("*.txt")]
        if path.is_file() and path not in secrets
    }
    for pid in pids:
        for name in ("cmdline", "environ"):
            path = Path(f"/proc/{pid}/{name}")
            try:
                said[path] = path.read_bytes()
            except OSError:
                continue  # it has ended
    assert len(said) > len(ALL)
    for path, secret in secrets.items():
        assert path.stat().st_mode & 0o777 == 0o600
        found = [str(each) for each, content in said.items() if secret.strip() in content]
        assert found == [], path.name


def assert_private(places: Places, pids: Iterable[int]) -> None:
    """Nobody else looks into folders that were there before, nor into files that are made now."""
    folders = [each for each in places.folders if each.exists()]
    assert {places.data("zookeeper"), places.data("broker"), places.warehouse} <= {*folders}
    assert {each.name: f"{each.stat().st_mode & 0o777:o}" for each in folders} == dict.fromkeys(
        (each.name for each in folders), "700"
    )
    for pid in pids:
        with suppress(FileNotFoundError):  # it has ended
            assert "\nUmask:\t0077\n" in Path(f"/proc/{pid}/status").read_text()


def assert_refused(addresses: Addresses) -> None:
    """Who comes from this machine and says nothing of himself."""
    for arguments, why in (
        (("topics", "list", "-b", addresses.brokers), "does it want TLS?"),
        (("report", "--audit", addresses.audit), "its certificate: unable to get local issuer"),
        (("schemas", "list", "-r", addresses.registry), "its certificate: unable to get"),
    ):
        ended = penstock(*arguments)
        assert ended.returncode not in {0, 2}, arguments
        assert (ended.stdout, why in ended.stderr) == ("", True)


def assert_served() -> None:
    """Who has read the environment."""
    since = datetime.now(UTC) - timedelta(hours=1)
    report = penstock("report", "shop", "--from", f"{since:%Y-%m-%dT%H:%M}")
    assert (report.returncode, report.stderr) == (0, ""), report.stdout
    names = [line.split()[0] for line in penstock("users", "list").stdout.splitlines()[1:]]
    assert names == sorted(USERS)
    assert ADMIN in names
    for user, resource, operation, may in (
        ("agent", "topic:web", "write", True),
        ("agent", "topic:_schemas", "write", False),
        ("audit", "topic:web", "read", True),
        ("audit", "topic:web", "write", False),
        ("audit", "topic:_schemas", "read", False),
        ("audit", "group:penstock-loader", "describe", True),
        ("audit", "group:penstock-loader", "read", False),
    ):
        ended = penstock("acls", "test", user, operation, resource)
        assert ended.returncode == (0 if may else 1), (user, operation, resource, ended)


def variables(environment: Path) -> dict[str, str]:
    """As a shell has them that has read this file."""
    said = subprocess.run(
        ["/bin/sh", "-c", '. "$1"; env', "sh", str(environment)],
        env={},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    read = dict(line.partition("=")[::2] for line in said.splitlines())
    return {name: value for name, value in read.items() if name.startswith("PENSTOCK_")}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_lines_land_by_way_of_a_second_cluster(tmp_path: Path, base: int) -> None:
    """Through kills of the mirror and of what it copies into; and again at the next start."""
    places, log = Places(tmp_path / "data"), WrittenLog(tmp_path / "logs" / "app.log")
    log.path.parent.mkdir()  # its own: in no other can names change while nobody watches
    pipeline_access = PipelineAccess(Addresses.of(Ports.beginning_at(base)))
    offline = pipeline_access.offline(MirrorPorts.beginning_at(base))
    directory = ("--dir", str(places.directory), "--load-every", "10s")
    first = ("--mirror", "--port-base", str(base), "--follow", f"web={log.path}")
    log.write(200)
    with (
        Up(tmp_path / "first.txt", *directory, *first) as up,
        StatusCollector(offline) as collector,
    ):
        up.until("all programs run")
        assert sorted(up.programs()) == sorted(WITH_MIRROR)
        wait_until_status(collector, log.are_stored, topic="dc1.web")
        up.kill(("mirror", "offline-broker", "offline-registry"))
        log.write(200)
        wait_until_status(collector, log.are_stored, topic="dc1.web")
        up.stop()
    log.write(200)
    with Up(tmp_path / "second.txt", *directory) as up, StatusCollector(offline) as collector:
        wait_until_status(collector, log.are_landed, verdict="complete", topic="dc1.web")
        reporting = {"agent", "broker", "loader", "mirror", "zookeeper"}
        wait_until(lambda: reports_of(base) >= reporting, within=PATIENCE, what="all report")
        up.stop()
    log.assert_landed_once(places.warehouse / "dc1.web")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("stage", "running"),
    [
        ("agent starts", ["zookeeper", "agent"]),
        pytest.param(
            *("audit starts", ["zookeeper", "broker", "registry", "agent"]),
            marks=pytest.mark.long,
        ),
    ],
)
def test_ctrl_c_while_it_starts(tmp_path: Path, base: int, stage: str, running: list[str]) -> None:
    with Up(tmp_path / "said.txt", "--dir", str(tmp_path / "up"), "--port-base", str(base)) as up:
        up.until(stage)
        assert set(running) <= set(up.programs())
        pids = family(up.process.pid)
        up.stop()
    assert up.times("died") == 0
    wait_until_gone(pids)


@pytest.mark.timeout(600)
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, base: int) -> None:
    with Up(tmp_path / "said.txt", "--dir", str(tmp_path / "up"), "--port-base", str(base)) as up:
        up.until("broker starts")
        pids = family(up.process.pid)
        os.kill(up.programs()["broker"], signal.SIGSTOP)  # so that it cannot end in its own time
        up.interrupt()
        up.process.send_signal(signal.SIGTERM)  # another number: no two of them become one
        assert up.wait() == 0, up.said()
    assert "The pipeline was killed, as by a crash. " in up.said()
    wait_until_gone(pids)


def test_a_directory_that_is_removed_ends_it(tmp_path: Path, base: int) -> None:
    directory = tmp_path / "up"
    with Up(tmp_path / "said.txt", "--dir", str(directory), "--port-base", str(base)) as up:
        up.until("zookeeper starts")
        pids = family(up.process.pid)
        directory.rename(tmp_path / "elsewhere")
        assert up.wait() == 1, up.said()
    assert f"penstock up: {directory} was removed while the pipeline ran" in up.said()
    assert "continues where it stopped" not in up.said()
    wait_until_gone(pids)


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
    assert up.said() == "No program was started.\n"
