"""`penstock zookeeper` as one of three, with TLS: by its configuration, and by what it says."""

import json
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cluster.errors import DirectoryUnusable
from cluster.session.operations import Create
from cluster.session.security import ZooKeeperSecurity
from cluster.session.session import Session
from cluster.zookeeper_server.config import EnsembleServer, ZooKeeperConfig
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from cluster.zookeeper_server.status import Asking
from ground.tls.client import Tls
from harness.logins.certificates import Authority
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until

ROOT = Path(__file__).parents[2]
SIZE = 3
Settings = dict[str, Any]


class Ensemble:
    """Three of them, each in a folder of its own, on this machine."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.directory = directory
        self.authority = authority
        self.ports = free_ports(SIZE)
        among = free_ports(2 * SIZE)
        self.certificate = authority.sign("zookeeper").both
        self.tls = {"ca": str(authority.ca), "certificate": str(self.certificate)}
        servers = [
            {
                "id": number + 1,
                "host": "127.0.0.1",
                "quorum_port": among[number],
                "election_port": among[SIZE + number],
            }
            for number in range(SIZE)
        ]
        for number in range(SIZE):
            settings = {
                "data_dir": str(directory / str(number)),
                "id": number + 1,
                "port": self.ports[number],
                "servers": servers,
                "tls": self.tls,
            }
            self.file(number).write_text(yaml.safe_dump(settings))
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def file(self, number: int) -> Path:
        return self.directory / f"zookeeper-{number}.yaml"

    def start(self, number: int) -> None:
        with (self.directory / f"{number}.log").open("ab") as said:
            self.running[number] = subprocess.Popen(
                [sys.executable, "-m", "penstock", "zookeeper", "--config", self.file(number)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def stop(self, number: int) -> None:
        process = self.running.pop(number)
        process.terminate()
        process.wait(60)

    def status(self, number: int) -> tuple[int, str]:
        """What the command says of one; `mode` asks for the same without a process."""
        command = ["zookeeper", "--config", str(self.file(number)), "--status", "--json"]
        asked = subprocess.run(
            [sys.executable, "-m", "penstock", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        return asked.returncode, json.loads(asked.stdout)["mode"] if asked.stdout else asked.stderr

    def mode(self, number: int) -> str | None:
        standing = Asking("127.0.0.1", self.ports[number], Tls(**self.tls)).standing()
        return None if standing is None else standing.mode

    def modes(self) -> list[str | None]:
        return [self.mode(number) for number in sorted(self.running)]

    def are(self, *modes: str) -> bool:
        return Counter(self.modes()) == Counter(modes)

    def security(self) -> ZooKeeperSecurity:
        return ZooKeeperSecurity(tls=Tls(**self.tls))

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path, Authority(tmp_path / "authority"))
    yield made
    for number in tuple(made.running):
        made.stop(number)


@pytest.mark.slow
def test_three_serve_as_one_and_take_a_new_certificate_as_they_run(ensemble: Ensemble) -> None:
    ensemble.start(0)
    wait_until(lambda: ensemble.mode(0) == "waiting", within=90)
    # Alone it has no quorum: it says that it waits, and that this is no serving.
    assert ensemble.status(0) == (1, "waiting")
    ensemble.start(1)
    wait_until(lambda: ensemble.are("follower", "leader"), within=90)

    before = [certificate_of(ensemble, number) for number in (0, 1)]
    ensemble.authority.sign("zookeeper")
    for number in (0, 1):
        wait_until(lambda: certificate_of(ensemble, number) != before[number], within=90)  # noqa: B023
    # A server that starts later is believed by those that have the new one.
    ensemble.start(2)
    wait_until(lambda: ensemble.are("follower", "follower", "leader"), within=90)

    session = Session.connect(
        ensemble.address, secret="s", timeout_s=30, security=ensemble.security()
    )
    session.write([Create("/a", b"1")])
    leader = ensemble.modes().index("leader")
    assert ensemble.status(leader) == (0, "leader")
    ensemble.stop(leader)
    wait_until(lambda: ensemble.are("follower", "leader"), within=90)
    node = session.read("/a")
    assert node is not None
    assert node.data == b"1"
    session.close()

    # Its data is not used by a server with another id.
    settings = yaml.safe_load(ensemble.file(leader).read_text()) | {"id": 1 + (leader + 1) % SIZE}
    with pytest.raises(
        DirectoryUnusable, match=f"belongs to server {leader + 1}, but this is server"
    ):
        EmbeddedZooKeeper.start_configured(msgspec.convert(settings, ZooKeeperConfig))


def certificate_of(ensemble: Ensemble, number: int) -> bytes | None:
    context = ssl.create_default_context(cafile=str(ensemble.authority.ca))
    context.load_cert_chain(str(ensemble.certificate))
    try:
        with (
            socket.create_connection(("127.0.0.1", ensemble.ports[number]), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as locked,
        ):
            return locked.getpeercert(binary_form=True)
    except OSError:
        return None


ONE = {"id": 1, "host": "127.0.0.1"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data_dir": ""}, "`data_dir` must name a directory"),
        ({"servers": [ONE]}, "`id` is missing"),
        ({"servers": [ONE], "id": 2}, "`id` is 2"),
        ({"id": 1}, "`servers` is missing"),
        ({"servers": [ONE, ONE], "id": 1}, "duplicate `id`"),
        ({"servers": [{"id": 256, "host": "a"}], "id": 256}, "between 1 and 255"),
        ({"servers": [{"id": 1, "host": "a\nb=c"}], "id": 1}, "must be a name or an address"),
        ({"servers": [{"id": 1, "host": "zk-1"}], "id": 1}, "can be reached from other machines"),
        ({"host": "0.0.0.0"}, "can be reached from other machines"),
        ({"host": "::1\nx=y"}, "`host` must be an address"),
        ({"tls": {"ca": "/ca.pem"}}, "needs `ca` and `certificate`"),
        (
            {"tls": {"ca": "/ca.pem", "certificate": "/a\nb"}},
            "file names must not contain a line break",
        ),
        ({"port": 0}, "`port` must be between"),
        ({"heap_bytes": 1}, "`heap_bytes` must be at least"),
    ],
)
def test_what_cannot_be_is_said(settings: Settings, said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert({"data_dir": "/data"} | settings, ZooKeeperConfig)


def test_an_address_of_six_is_written_as_zookeeper_wants_it() -> None:
    assert EnsembleServer(id=1, host="fd00::1").line == "server.1=[fd00::1]:2888:3888\n"
