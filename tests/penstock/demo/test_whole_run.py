"""`penstock demo`, from its first line to its verdict; and what it says where something is gone."""

import io
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ground.network.listening import is_free
from harness.hadoop.spark_jvm import quick_java_environment
from harness.processes.waiting import wait_until
from penstock.demo.applications.log_writer import TALLY, kept
from penstock.demo.counts import landed_files, landed_numbers
from penstock.demo.demonstration import applications_of
from penstock.demo.figures import arrivals
from penstock.demo.folder import Folder, free_ports
from penstock.demo.samples import SAMPLES
from penstock.demo.watch import DemoFailed, DemonstrationStopped, Watch
from penstock.directory.places import HOST, Places
from penstock.status.collector import LatestStatus, StatusCollector
from penstock.up.pipeline import LocalPipeline
from penstock.up.screen import screen_for
from penstock.up.stop_requests import StopRequests
from tests.penstock.running import PENSTOCK, REPOSITORY, penstock, running

WITHIN = 700  # on a machine that does other things as well
ASKED = ("--secure", "--seconds", "8", "--seed", "1", "--json")

patient = pytest.mark.timeout(2 * WITHIN + 60)


@dataclass(frozen=True)
class Ended:
    """The one whole run, behind locks: an open one is asked for less."""

    places: Places
    exit_code: int
    document: dict[str, Any]
    said: str  # on stderr


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    directory = tmp_path_factory.mktemp("demo")
    run = subprocess.run(
        [*PENSTOCK, "demo", *ASKED, "--dir", str(directory)],
        cwd=REPOSITORY,
        env={**os.environ, **quick_java_environment()},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
    )
    assert run.stdout, run.stderr
    return Ended(Places(directory), run.returncode, json.loads(run.stdout), run.stderr)


@pytest.mark.slow
@patient
def test_every_line_arrives(ended: Ended) -> None:
    """By the applications' own count, through kills of the agent, the mirror and the broker; and
    the audit vouches for each of them."""
    assert ended.document["differences"] == []
    assert (ended.exit_code, ended.document["agrees"]) == (0, True)
    killed = ["agent", "mirror", "broker"]
    assert ended.document["killed"] == killed
    for program in killed:
        assert f"The {program} was killed with SIGKILL" in ended.said
        assert f"{program} died: killed by SIGKILL" in ended.said
    topics = {each["topic"]: each for each in ended.document["topics"]}
    assert topics.keys() == {sample.name for sample in SAMPLES}
    for topic in topics.values():
        events = topic["events"]
        assert events > 100
        assert {topic[tier] for tier in ("shipped", "stored", "mirrored", "landed")} == {events}
        assert topic["verdict"] == "complete"
    payments = topics["payments"]
    assert payments["lines"] > payments["events"]  # stack traces
    assert topics["shop"]["files"] > 1  # it was rotated
    assert ended.document["totals"]["lines"] == sum(each["lines"] for each in topics.values())


@pytest.mark.slow
@patient
def test_what_it_says_is_what_the_files_hold(ended: Ended) -> None:
    for topic in ended.document["topics"]:
        folder = applications_of(ended.places) / topic["topic"]
        logs = [path for path in folder.iterdir() if path.name != TALLY]
        assert len(logs) == topic["files"]
        assert sum(path.read_bytes().count(b"\n") for path in logs) == topic["lines"]


@pytest.mark.slow
@patient
def test_a_file_that_is_taken_away_is_noticed(ended: Ended, tmp_path: Path) -> None:
    """By the numbers of the events that were in it, without asking the brokers."""
    shop = next(sample for sample in SAMPLES if sample.name == "shop")
    tally = kept(applications_of(ended.places) / "shop" / TALLY)
    warehouse = tmp_path / "warehouse"
    shutil.copytree(ended.places.warehouse / shop.copy, warehouse / shop.copy)

    def faults() -> list[str]:
        return list(arrivals(landed_numbers(warehouse, shop), tally.events).faults("landed"))

    assert faults() == []
    first, *others = landed_files(warehouse / shop.copy)
    gone = first.rename(tmp_path / "gone")
    left = set(landed_numbers(warehouse, shop))
    (missing,) = faults()
    assert missing.startswith(f"{tally.events - len(left):,} event")
    assert "not landed: number" in missing
    shutil.copy(gone, first)
    shutil.copy(gone, first.with_name("part-copy.parquet"))
    (twice,) = faults()
    assert twice.startswith("landed more than once: number")
    assert len(others) == len(landed_files(warehouse / shop.copy)) - 2


@pytest.mark.not_quick("starts a demonstration")
def test_it_stops_when_it_is_told_to(tmp_path: Path) -> None:
    """Amid the start: nothing is left, neither programs nor files."""
    with running("demo", environment={"TMPDIR": str(tmp_path)}) as process:
        log = "*/logs/zookeeper.log"
        wait_until(lambda: any(tmp_path.glob(log)), what="ZooKeeper is started")
        assert process.end(signal.SIGINT) == 130
    assert list(tmp_path.iterdir()) == []


def test_what_keeps_it_from_starting_is_said(tmp_path: Path) -> None:
    """All at once, a line each, and nothing is left."""
    (tmp_path / "empty").mkdir()
    environment = {"PATH": str(tmp_path / "empty"), "JAVA_HOME": "", "TMPDIR": str(tmp_path)}
    run = penstock("demo", environment=environment)
    assert (run.returncode, run.stdout) == (1, "")
    (line,) = run.stderr.splitlines()
    assert "need Java" in line
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_it_takes_no_folder_that_has_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    run = penstock("demo", "--dir", str(tmp_path))
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"penstock: {tmp_path} is not empty: name another folder with --dir\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.not_quick("starts a demonstration")
def test_a_program_that_does_not_start_ends_the_demonstration(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.data("zookeeper").touch()  # a file, where it wants a folder
    asked = StopRequests()
    ports, mirror = free_ports()
    with LocalPipeline(places, ports, mirror=mirror) as pipeline:
        screen = screen_for(io.StringIO(), places, pipeline.addresses)
        watch = Watch(pipeline, screen, LatestStatus(StatusCollector(pipeline.access)), asked)
        with pytest.raises(DemoFailed, match="zookeeper does not start \\(exit code 2\\): "):
            watch.until_ready(60.0, lambda: None)
        assert not watch.runs("zookeeper")
        asked.times += 1
        with pytest.raises(DemonstrationStopped):
            watch.until(lambda: False, 60.0)


def test_its_ports_are_free() -> None:
    own, mirror = free_ports()
    ports = [*own, *mirror]
    assert ports == list(range(ports[0], ports[0] + len(ports)))
    assert all(is_free(HOST, port) for port in ports)


def test_a_folder_of_its_own_is_removed() -> None:
    with Folder(None, keep=False) as folder:
        (folder.path / "a").mkdir()
        (folder.path / "a" / "file").touch()
    assert not folder.path.exists()


def test_a_folder_is_kept_where_it_is_asked_for_or_needed(tmp_path: Path) -> None:
    with Folder(tmp_path / "named" / "new", keep=False) as named:
        pass
    assert named.kept
    assert named.path.is_dir()
    with pytest.raises(DemoFailed), Folder(None, keep=False) as failed:
        raise DemoFailed("for a test")
    assert failed.kept
    failed.path.rmdir()
    with pytest.raises(DemoFailed, match="named is not empty"):
        Folder(tmp_path / "named", keep=False)
    (tmp_path / "file").touch()
    with pytest.raises(DemoFailed, match="file cannot be used: "):
        Folder(tmp_path / "file", keep=False)
