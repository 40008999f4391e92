"""The embedded ZooKeeper: starts, outlives nobody, loses nothing, and says what is wrong."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from cluster.errors import DidNotStart, DirectoryUnusable, NoJars, NoJava, PortTaken
from cluster.session.operations import Create
from cluster.session.session import Session
from cluster.zookeeper_server.jars import DEBIAN_JARS, find_class_path
from cluster.zookeeper_server.server import EmbeddedZooKeeper, read_secret
from cluster.zookeeper_server.status import answers
from ground.network import listening
from harness.processes.crowding import Patience
from harness.processes.open_files import open_files
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    server = EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper"), port=0)
    yield server
    server.stop()


def is_alive(pid: int) -> bool:
    """Also false of a zombie: it has no memory any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


@contextmanager
def running(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python program as a child, with the tree on its path; killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_serves_and_stops_and_starts_again(tmp_path: Path) -> None:
    started: list[EmbeddedZooKeeper] = []
    thread = threading.Thread(
        target=lambda: started.append(EmbeddedZooKeeper.start(tmp_path, port=0))
    )
    thread.start()
    thread.join()
    time.sleep(0.3)  # it outlives the thread that started it
    [server] = started
    assert server.is_running()
    assert server.answers()
    session = Session.connect(server.address, secret=server.secret, timeout_s=2)
    session.write([Create("/a")])
    session.close()
    pid = server.pid
    assert pid is not None
    assert server.wait(0) is None

    patience = Patience(5)
    server.stop()
    assert not patience.is_over()
    assert not server.is_running()
    assert not server.answers()
    assert not is_alive(pid)
    assert server.wait() is not None
    server.stop()  # does nothing

    with socket.create_server(("127.0.0.1", server.port)):
        said = rf"127\.0\.0\.1:{server.port}: process {os.getpid()} \("
        with pytest.raises(PortTaken, match=said):
            EmbeddedZooKeeper.start(tmp_path, port=server.port)
    second = EmbeddedZooKeeper.start(tmp_path, port=server.port)
    second.stop()
    # The secret is made once, and for the owner alone.
    assert server.secret == second.secret == read_secret(tmp_path)
    assert len(server.secret) > 30
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert read_secret(tmp_path / "other") is None


def test_it_is_small(server: EmbeddedZooKeeper) -> None:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    [resident] = [int(line.split()[1]) for line in lines if line.startswith("VmRSS:")]
    assert resident < 110 * 1024


def test_it_listens_where_it_is_told_and_nowhere_else(server: EmbeddedZooKeeper) -> None:
    own = {str(held) for held in open_files(server.pid).values()}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                listening.append(fields[1])
    assert len(listening) == 1
    address, _, port = listening[0].rpartition(":")
    assert int(port, 16) == server.port
    assert address.endswith("0100007F")


def test_what_was_written_is_there_after_a_kill(server: EmbeddedZooKeeper) -> None:
    # A busy machine takes seconds to come back to a server that was started again.
    session = Session.connect(server.address, secret=server.secret, timeout_s=30)
    with closing(session):
        session.write([Create("/a", b"1")])
        assert not server.ensure_running()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait(60) == -signal.SIGKILL
        assert server.ensure_running()
        node = session.read("/a")
        assert node is not None
        assert node.data == b"1"


STARTER = """
import sys, time
from pathlib import Path
from cluster.zookeeper_server.server import EmbeddedZooKeeper
server = EmbeddedZooKeeper.start(Path(sys.argv[1]), port=int(sys.argv[2]))
print(server.pid, flush=True)
time.sleep(600)
"""


def test_it_dies_with_a_killed_parent_and_the_next_starts_at_once(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with running(STARTER, tmp_path, port) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert answers("127.0.0.1", port)
    wait_until(lambda: not is_alive(pid))
    server = EmbeddedZooKeeper.start(tmp_path, port=port)
    server.stop()


def test_it_dies_with_a_parent_that_is_killed_while_it_starts(tmp_path: Path) -> None:
    def children() -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cwd").readlink() == tmp_path:
                    found.append(process.name)
            except OSError:
                continue
        return found

    for delay in (0.1, 0.25, 0.5):
        with running(STARTER, tmp_path, 0):
            time.sleep(delay)
        wait_until(lambda: not children())


STANDALONE = """
import sys
from pathlib import Path
from cluster.zookeeper_server.server import run_configured
from cluster.zookeeper_server.config import ZooKeeperConfig
from ground.systemd import Supervisor
config = ZooKeeperConfig(data_dir=sys.argv[1], port=int(sys.argv[2]))
sys.exit(run_configured(config, Supervisor()))
"""


def test_guarded_it_lets_nobody_else_fill_it(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper.start(tmp_path, port=0, guarded=True)
    try:
        for _ in range(2):  # and the same again
            with stranger(server) as anybody:
                for path in ("/flood", "/zookeeper/flood", "/zookeeper/quota/flood"):
                    with pytest.raises(NoAuthError):
                        anybody.create(path, bytes(1000))
                with pytest.raises(NoAuthError):
                    anybody.set_acls("/", OPEN_ACL_UNSAFE)
            with closing(Session.connect(f"{server.address}/a/map", secret=server.secret)) as ours:
                assert ours.exists("/brokers")
            server.stop()
            server = EmbeddedZooKeeper.start(tmp_path, port=server.port, guarded=True)
    finally:
        server.stop()


@contextmanager
def stranger(server: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """Somebody who reaches the port, with a password of his own."""
    client = KazooClient(server.address, auth_data=[("digest", "penstock:guessed")])
    client.start(20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_alone_it_runs_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    (port,) = free_ports(1)
    with running(STANDALONE, tmp_path, port) as process:
        wait_until(lambda: answers("127.0.0.1", port))
        process.send_signal(number)
        assert process.wait(60) == 0
    assert listening.is_free("127.0.0.1", port)


def test_alone_it_ends_in_error_when_the_server_does(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with running(STANDALONE, tmp_path, port) as process:
        wait_until(lambda: answers("127.0.0.1", port))
        named = listening.who_listens(port)
        assert named is not None
        os.kill(int(named.split()[1]), signal.SIGKILL)
        assert process.wait(60) == 1


def test_a_foreign_address_is_said(tmp_path: Path) -> None:
    with pytest.raises(DidNotStart, match=r"192\.0\.2\.1"):
        EmbeddedZooKeeper.start(tmp_path, port=2181, host="192.0.2.1")


def test_a_directory_serves_one_at_a_time(server: EmbeddedZooKeeper) -> None:
    with pytest.raises(DirectoryUnusable, match="in use by another"):
        EmbeddedZooKeeper.start(server.directory, port=0)
    assert server.answers()
    # The server holds the lock too: who comes next waits for it to go, not for us.
    assert server.directory / "lock" in open_files(server.pid).values()


def test_a_directory_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DirectoryUnusable, match="file/zookeeper cannot be used: Not a directory"):
        EmbeddedZooKeeper.start(tmp_path / "file" / "zookeeper", port=0)


def test_without_java_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NoJava, match="apt install default-jre-headless"):
        EmbeddedZooKeeper.start(tmp_path, port=0)


def test_a_directory_without_jars_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoJars, match=str(tmp_path)):
        EmbeddedZooKeeper.start(tmp_path, port=0, jars=tmp_path)


def test_why_it_did_not_start_is_quoted(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "zookeeper-0.jar").write_text("not a jar")
    with pytest.raises(DidNotStart, match=r"console\.log ends: .*QuorumPeerMain"):
        EmbeddedZooKeeper.start(tmp_path / "zookeeper", port=0, jars=jars)


def test_pysparks_jars_are_taken_without_importing_it() -> None:
    program = (
        "import sys; from cluster.zookeeper_server.jars import find_class_path; "
        "path = find_class_path(); assert 'pyspark' not in sys.modules; print(path)"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "/pyspark/jars/zookeeper-3." in output
    assert output.count(":") < 12


def test_debians_jars_serve_too(tmp_path: Path) -> None:
    if not (DEBIAN_JARS / "zookeeper.jar").exists():
        pytest.skip("Debian's ZooKeeper is not installed: apt install zookeeper")
    assert "pyspark" not in find_class_path(DEBIAN_JARS)
    server = EmbeddedZooKeeper.start(tmp_path, port=0, jars=DEBIAN_JARS)
    session = Session.connect(server.address, secret=server.secret, timeout_s=2)
    session.write([Create("/a")])
    session.close()
    server.stop()
