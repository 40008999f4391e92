"""The programs that run until they are stopped, and what is done with their directories."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from cluster.zookeeper_server.status import answers
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.penstock.running import INTERPRETER, REPOSITORY, At, penstock, running


def test_zookeeper_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    at = ("--port", str(port))
    with running("zookeeper", "--data-dir", str(tmp_path / "zookeeper"), *at) as process:
        wait_until(lambda: answers("127.0.0.1", port), what="ZooKeeper answers")
        taken = penstock("zookeeper", "--data-dir", str(tmp_path / "other"), *at)
        assert process.end(signal.SIGTERM) == 0
    assert taken.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in taken.stderr.splitlines()[-1]
    assert not answers("127.0.0.1", port)


@pytest.mark.not_quick("starts a process")
def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    zookeeper, port, http_port = free_ports(3)
    settings = [f"data_dir={tmp_path}", "id=1", f"zookeeper=127.0.0.1:{zookeeper}"]
    settings += [f"port={port}", f"http_port={http_port}"]
    program = (
        "from cluster.session.session import Session\n"
        "Session.connect.__func__.__kwdefaults__['connect_timeout_s'] = 1.0\n"
        "from penstock.command_line import main\n"
        "main()\n"
    )
    ended = subprocess.run(
        [*INTERPRETER, "-c", program, "broker", *[f"--set={setting}" for setting in settings]],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert ended.returncode == 1
    assert "penstock broker: no ZooKeeper answers" in ended.stderr


def test_recovery_takes_no_other_brokers_directory(tmp_path: Path) -> None:
    settings = ["--set", "id=1", "--set", "zookeeper=127.0.0.1:1", "--set"]
    recover = ["topics", "recover", *settings]
    ended = penstock(*recover, f"data_dir={tmp_path}")
    assert (ended.returncode, "not the data directory of a broker" in ended.stderr) == (1, True)
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=2\ncluster.id=x\n")
    ended = penstock(*recover, f"data_dir={tmp_path}")
    assert (
        ended.stderr
        == f"penstock: {tmp_path} belongs to broker 2, but the configuration is broker 1's\n"
    )
    ended = penstock(*recover, f"data_dir={tmp_path}/absent")
    assert ended.stderr == f"penstock: {tmp_path}/absent is not a directory\n"


def test_a_damaged_partition_is_cut_off_when_that_is_wanted(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    broker = BrokerProcess(tmp_path, zookeeper=f"{zookeeper.address}/{tmp_path.name}")
    at = At(broker.bootstrap)
    repair = ["topics", "repair", "a", "0", "--config", str(broker.config)]
    with broker:
        for line in ("first", "second", "third"):
            at.output("produce", "a", stdin=f"{line}\n")
        assert "is in use" in penstock(*repair, "--give-up").stderr
    assert penstock(*repair, "--give-up").stdout == "a-0 is not damaged\n"

    segment = broker.partition_dir("a") / f"{0:020d}.log"
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"second", b"secnod"))
    refused = penstock(*repair)
    assert (refused.returncode, segment.stat().st_size) == (2, len(content))
    assert "will be lost: pass --give-up" in refused.stderr
    cut = json.loads(penstock(*repair, "--give-up", "--json").stdout)
    assert (cut["lost"]["first_offset"], cut["lost"]["path"]) == (1, str(segment))
    elsewhere = penstock("topics", "repair", "b", "0", *repair[4:], "--give-up")
    assert "is not the directory of a partition" in elsewhere.stderr
    with broker:
        assert at.output("consume", "a", "--from", "beginning", "--to-end") == "first\n"
        at.output("produce", "a", stdin="fourth\n")


ARROWS_MEMORY = """
import importlib, sys
import pyarrow as pa
importlib.import_module(sys.argv[1])
own = pa.mimalloc_memory_pool()
before = own.max_memory()
kept = pa.array(range(1000))
print(pa.default_memory_pool().backend_name, before, own.max_memory())
"""


@pytest.mark.not_quick("imports whole programs")
def test_programs_that_mostly_wait_give_memory_back() -> None:
    """Nothing is made with Arrow's own allocator, not even while they are imported."""
    for each in ("penstock.services.audit_service", "penstock.services.load.command"):
        run = [sys.executable, "-c", ARROWS_MEMORY, each]
        ended = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        assert ended.stdout.split() == ["system", "0", "0"], each
