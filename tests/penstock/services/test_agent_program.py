"""`penstock agent` as a process: started, asked, reloaded, supervised, stopped."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.penstock.agent import AgentProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.penstock.running import penstock


@pytest.fixture
def agent(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[AgentProcess]:
    """Not started yet. It follows {tmp_path}/logs/*.log."""
    (tmp_path / "logs").mkdir()
    agent = AgentProcess(
        tmp_path / "host",
        brokers=running_broker.bootstrap,
        registry=running_registry.url,
        inputs=[{"name": "main", "topic": new_topic, "paths": [f"{tmp_path}/logs/*.log"]}],
        settings={"inputs_dir": "agent.d"},
    )
    (tmp_path / "host" / "agent.d").mkdir()
    yield agent
    agent.kill()


def signalled(agent: AgentProcess, number: int) -> None:
    os.kill(agent.process.pid, number)


def shown(agent: AgentProcess, *options: str) -> str:
    ended = penstock("agent", "--status", "--config", str(agent.config), *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def inputs(agent: AgentProcess) -> list[str]:
    return [each["name"] for each in agent.status()["inputs"]]


def test_an_agent_from_its_start_to_its_end(tmp_path: Path, agent: AgentProcess) -> None:
    log = tmp_path / "logs" / "a.log"
    log.write_text("first\nsecond\n")
    with agent:
        wait_until(lambda: "0 bytes behind" in shown(agent), what="everything is acknowledged")
        (row,) = [line.split() for line in shown(agent).splitlines() if str(log) in line]
        assert row[2:] == ["main", "13", "13", "0", "0.0", "-"]
        assert f'"path":"{log}"' in shown(agent, "--json")
        port = str(agent.http_port)
        assert (
            str(log) in penstock("agent", "--status", "--agent", f"http://127.0.0.1:{port}").stdout
        )
        assert "penstock_agent_ready 1.0" in agent.http("/metrics")[1]
        assert agent.http("/healthz") == (200, "alive\n")
        another_agent_is_refused(agent)
        assert agent.terminate() == 0
    assert len(agent.said("stopping", "SIGTERM")) == 1
    assert len(agent.said("stopped drained=yes")) == 1
    ended = penstock("agent", "--status", "--config", str(agent.config))
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
    assert "no agent answers at" in ended.stderr


def another_agent_is_refused(agent: AgentProcess) -> None:
    """A data directory is one agent's."""
    (port,) = free_ports(1)
    ended = penstock("agent", "--config", str(agent.config), "--set", f"http_port={port}")
    assert ended.returncode == 1
    (line,) = [each for each in ended.stderr.splitlines() if each.startswith("penstock agent")]
    assert str(agent.data_dir) in line
    assert agent.ready()
    # The port is taken, too: what counts is that the directory is.
    ended = penstock("agent", "--config", str(agent.config))
    assert ended.returncode == 1
    assert str(agent.data_dir) in ended.stderr.splitlines()[-1]
    assert "cannot listen" not in ended.stderr


def test_files_of_applications_come_and_go(tmp_path: Path, agent: AgentProcess) -> None:
    folder = tmp_path / "host" / "agent.d"

    def write(text: str) -> None:
        (folder / "shop.yaml").write_text(text)

    with agent:
        assert inputs(agent) == ["main"]
        write(yaml.safe_dump({"inputs": [{"topic": "shop", "paths": ["/nowhere/x"]}]}))
        wait_until(lambda: inputs(agent) == ["main", "shop"], what="a new file is taken")
        write("inputs: [{topci: shop}]\n")
        wait_until(lambda: agent.status()["refusals"], what="a wrong file is named")
        assert inputs(agent) == ["main", "shop"]
        assert agent.http("/readyz")[0] == 503
        assert "did you mean topic?" in agent.http("/readyz")[1]
        consume = ["consume", "_audit", "--from", "beginning", "--to-end", "--events"]
        consume += ["--registry", str(agent.settings["registry"])]
        consume += ["--bootstrap", *agent.settings["brokers"]]
        wait_until(lambda: str(folder) in penstock(*consume).stdout, what="the ledger has it")
        assert len(agent.said("inputs file rejected")) == 1
        (folder / "shop.yaml").unlink()
        wait_until(lambda: inputs(agent) == ["main"] and agent.ready(), what="its inputs are gone")


def test_a_configuration_is_taken_if_it_is_valid(
    tmp_path: Path, agent: AgentProcess, new_topic: str
) -> None:
    def reload(**settings: object) -> None:
        agent.configure(**settings)
        signalled(agent, signal.SIGHUP)

    before = list(agent.settings["inputs"])  # type: ignore[call-overload]
    other = {"name": "other", "topic": new_topic, "paths": [f"{tmp_path}/logs/other"]}
    (tmp_path / "logs" / "a.log").write_text("first\n")
    with agent:
        wait_until(lambda: agent.status()["files"], what="the file is followed")
        (file,) = agent.status()["files"]
        reload(inputs=[*before, other])
        wait_until(lambda: inputs(agent) == ["main", "other"], what="the new input is there")
        assert [each["source"] for each in agent.status()["files"]] == [file["source"]]
        wait_until(lambda: agent.said("configuration loaded", "inputs=2"), what="that is said")

        reload(inputs=[{"paths": ["/x"]}])
        wait_until(
            lambda: "topic: is missing" in agent.http("/readyz")[1], what="what is wrong is said"
        )
        reload(inputs=before, window=30)
        wait_until(
            lambda: agent.said("rejected", "changing window needs a restart"), what="so is that"
        )
        assert inputs(agent) == ["main", "other"]

        reload(inputs=before, window=60)
        wait_until(lambda: inputs(agent) == ["main"], what="the input is gone")
        assert agent.alive


def test_what_cannot_start_says_why(tmp_path: Path, agent: AgentProcess) -> None:
    for arguments in (
        ("--config", str(tmp_path / "absent.yaml")),
        (),
        ("--config", str(agent.config), "--json"),
    ):
        ended = penstock("agent", *arguments)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), arguments


@pytest.fixture
def supervisor(tmp_path: Path, agent: AgentProcess) -> Iterator[socket.socket]:
    """What the agent tells it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(60)
        agent.process.environment.update(NOTIFY_SOCKET=str(tmp_path / "notify"))
        yield channel


def told(supervisor: socket.socket, word: str) -> str:
    while word not in (said := supervisor.recv(4096).decode()):
        pass
    return said


def test_files_are_followed_while_another_has_its_port(
    tmp_path: Path, agent: AgentProcess, new_topic: str, supervisor: socket.socket
) -> None:
    (tmp_path / "logs" / "a.log").write_text("first\nsecond\n")
    with socket.create_server(("127.0.0.1", agent.http_port)):
        agent.spawn()
        wait_until(lambda: agent.said("agent ready", "http_port=0"), what="it follows its files")
        ready = told(supervisor, "READY=1")
        assert ready.startswith("READY=1\nSTATUS=1 inputs, no pages: cannot listen on 127.0.0.1")
        brokers = agent.settings["brokers"][0]  # type: ignore[index]
        consume = ["consume", new_topic, "--from", "beginning", "--count", "2", "--json"]
        consume += ["--bootstrap", brokers]
        wait_until(lambda: len(penstock(*consume).stdout.splitlines()) == 2, what="both lines")
        wait_until(
            lambda: agent.said("warning", "cannot listen on", "http_port"), what="that is said"
        )
    wait_until(agent.ready, what="it answers where the port is free")
    served = f"http_port={agent.http_port}"
    wait_until(lambda: agent.said("serving pages", served), what="that is said")
    assert len(agent.said("cannot listen on")) == 1
    assert agent.terminate() == 0


def test_files_are_followed_while_its_address_is_not_there(agent: AgentProcess) -> None:
    """198.51.100.1 is no machine's: it stands for one that the network has yet to bring."""
    agent.configure(http_host="198.51.100.1", insecure=True)
    agent.spawn()
    wait_until(lambda: agent.said("agent ready"), what="it follows its files")
    wait_until(
        lambda: agent.said("warning", "cannot listen on 198.51.100.1", "http_host"),
        what="it says so",
    )
    assert agent.terminate() == 0


def test_a_supervisor_is_told(agent: AgentProcess, supervisor: socket.socket) -> None:
    agent.process.environment.update(WATCHDOG_USEC="900000")
    with agent:
        assert told(supervisor, "READY=1") == "READY=1\nSTATUS=1 inputs"
        first = time.monotonic()
        for _ in range(3):
            told(supervisor, "WATCHDOG=1")
        assert time.monotonic() - first < 30
        signalled(agent, signal.SIGHUP)
        told(supervisor, "RELOADING=1")
        told(supervisor, "READY=1")
        assert agent.terminate() == 0
        assert "EXTEND_TIMEOUT_USEC=25000000" in told(supervisor, "STOPPING=1")


def test_a_second_signal_ends_it_at_once(
    tmp_path: Path, running_registry: RegistryProcess, agent: AgentProcess
) -> None:
    """Brokers do not answer: a stop waits for them."""
    log = tmp_path / "logs" / "a.log"
    (port,) = free_ports(1)
    with agent:  # so that it knows its schemas and its partition
        log.write_text("first\n")
        wait_until(lambda: "0 bytes behind" in shown(agent), what="the line is acknowledged")
    agent.configure(brokers=[f"127.0.0.1:{port}"], drain=60)
    log.write_text("first\nsecond\n")
    agent.spawn()
    wait_until(lambda: (agent.status() or {}).get("files"), what="it follows its files")
    signalled(agent, signal.SIGTERM)
    wait_until(
        lambda: agent.said("stopping", "SIGTERM") and len(agent.said("stopping")) > 1,
        what="it stops",
    )
    assert agent.alive
    signalled(agent, signal.SIGTERM)
    assert agent.process.wait(within=5) == -signal.SIGTERM
