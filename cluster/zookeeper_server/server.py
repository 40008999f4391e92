"""A real ZooKeeper as a child process: `zookeeper: embedded`, and `penstock zookeeper`.

It owns its directory: `zoo.cfg` and the logging files, rewritten at every start; `data/`,
ZooKeeper's own, with `myid` for a member of an ensemble; `secret`, created once, which protects its
nodes; `lock`, also held by the child, so that no two servers share the data. ZooKeeper syncs every
transaction to disk before it answers, so a kill at any moment loses nothing. The child dies with
this process, even if that is killed: it is started by a thread that waits for it as long as both
live (see tether.py).
"""

import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster.errors import ClusterError, DidNotStart, DirectoryUnusable, EmbeddedError, PortTaken
from cluster.session.security import ZooKeeperSecurity
from cluster.session.session import guard_root
from cluster.zookeeper_server import files as zookeeper_files
from cluster.zookeeper_server import tether
from cluster.zookeeper_server.config import DEFAULT_PORT, ZooKeeperConfig
from cluster.zookeeper_server.jars import find_class_path, find_java, find_tls_class_path
from cluster.zookeeper_server.status import Asking
from ground.files.directory_lock import DirectoryLock, InUse
from ground.files.durable_files import replace_file
from ground.network import listening
from ground.systemd import ALIVE, READY, STOPPING, Supervisor, status

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_START_S: Final = 30.0
_STOP_S: Final = 10.0
_LOCK_S: Final = 5.0  # for a killed server to disappear
_LOG_LINES: Final = 5
_TURN_S: Final = 0.2
_LOOK_S: Final = 10.0

log = logging.getLogger(__name__)


class EmbeddedZooKeeper:
    """A running server, created by `start`."""

    def __init__(
        self,
        directory: Path,
        host: str,
        port: int,
        command: Sequence[str],
        config: ZooKeeperConfig | None = None,
    ) -> None:
        self.directory = directory
        self.host = host
        self.port = port
        self._command = command
        self._config = config
        self._asking = Asking(host, port, config.tls if config else None)
        self._lock = _lock(directory)
        self.secret = _secret(directory)
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()

    @classmethod
    def start(
        cls,
        data_dir: Path,
        port: int = DEFAULT_PORT,
        host: str = "127.0.0.1",
        *,
        jars: Path | None = None,
        guarded: bool = False,
    ) -> "EmbeddedZooKeeper":
        """Starts a server and waits until it answers. Port 0: any free port. `guarded`: only owners
        of its secret can create nodes at the root."""
        options = [*zookeeper_files.JAVA_OPTIONS, "-cp", find_class_path(jars)]
        server = cls._started(data_dir, host, port, options, None)
        if guarded:
            server._guard()
        return server

    @classmethod
    def start_configured(cls, config: ZooKeeperConfig) -> "EmbeddedZooKeeper":
        """Starts a server and waits until it answers. A member of an ensemble may answer that it
        does not serve yet, while it waits for the others."""
        find_jars = find_tls_class_path if config.tls else find_class_path
        heap = f"-Xmx{config.heap_bytes >> 20}m"  # overrides the default: Java takes the last one
        class_path = find_jars(Path(config.jars) if config.jars else None)
        options = [*zookeeper_files.JAVA_OPTIONS, heap, "-cp", class_path]
        server = cls._started(Path(config.data_dir), config.host, config.port, options, config)
        if config.guarded:
            server._guard()
        return server

    @classmethod
    def _started(
        cls,
        data_dir: Path,
        host: str,
        port: int,
        options: Sequence[str],
        config: ZooKeeperConfig | None,
    ) -> "EmbeddedZooKeeper":
        command = [str(find_java()), *options, MAIN_CLASS, zookeeper_files.SERVER_CONFIG]
        directory = data_dir.absolute()
        try:
            directory.joinpath(zookeeper_files.DATA).mkdir(parents=True, exist_ok=True)
            free_port = port or listening.free_ports(host, 1)[0]
            server = cls(directory, host, free_port, command, config)
        except OSError as error:
            raise _unusable(directory, error) from None
        try:
            server._write_files()
            server._spawn()
        except EmbeddedError:
            server.stop()
            raise
        return server

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def is_running(self) -> bool:
        return self._process is not None and not self._ended.is_set()

    def answers(self) -> bool:
        """Whether the server is up: it serves requests, or waits for the others of its ensemble."""
        answer = self._asking.standing()
        may_wait = self._config is not None and bool(self._config.servers)
        return answer is not None and (answer.serves or may_wait)

    def mode_text(self) -> str:
        """The server's mode, as one word."""
        answer = self._asking.standing()
        return answer.mode if answer else "does not answer"

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Returns the server's exit code once it has ended; None if it is still running after the
        timeout."""
        if not self._ended.wait(timeout_s) or self._process is None:
            return None
        return self._process.returncode

    def ensure_running(self) -> bool:
        """Restarts the server if it has ended unexpectedly; returns whether that was necessary."""
        if self._lock.closed or self.is_running():
            return False
        log.warning("embedded zookeeper ended, restarting it address=%s", self.address)
        self._spawn()
        return True

    def stop(self) -> None:
        """Ends the server, and releases its directory."""
        if self._process is not None and not self._ended.is_set():
            self._process.terminate()
            if not self._ended.wait(_STOP_S):
                self._process.kill()
                self._ended.wait()
        self._lock.close()

    def _guard(self) -> None:
        tls = self._config.tls if self._config else None
        try:
            guard_root(self.address, self.secret, ZooKeeperSecurity(tls=tls))
        except ClusterError as error:
            self.stop()
            raise DidNotStart(str(error)) from None

    def _write_files(self) -> None:
        files = zookeeper_files.logging_files()
        files[zookeeper_files.SERVER_CONFIG] = (
            zookeeper_files.configured(self._config)
            if self._config
            else zookeeper_files.server_config(self.host, self.port)
        )
        try:
            self._write_id()
            for name, text in files.items():
                self.directory.joinpath(name).write_text(text)
        except OSError as error:
            raise _unusable(self.directory, error) from None

    def _write_id(self) -> None:
        """Data belongs to one server of an ensemble, and must not be used by another."""
        if self._config is None or not self._config.servers:
            return
        path = self.directory / zookeeper_files.DATA / zookeeper_files.MY_ID
        previous_id = path.read_text().strip() if path.exists() else ""
        if previous_id not in {"", str(self._config.id)}:
            raise DirectoryUnusable(
                f"ZooKeeper's directory {self.directory} belongs to server {previous_id}, but this "
                f"is server {self._config.id}: give each server its own"
            )
        replace_file(path, f"{self._config.id}\n".encode(), mode=0o644)

    def _spawn(self) -> None:
        if not _can_listen(self.host, self.port):
            raise PortTaken(
                f"ZooKeeper cannot listen on {self.address}: "
                f"{listening.who_listens(self.port) or 'another process'} already does"
            )
        self._ended.clear()
        self._process = None
        start_event = threading.Event()
        threading.Thread(
            target=self._mind, args=(start_event,), name="embedded zookeeper", daemon=True
        ).start()
        start_event.wait()
        deadline = time.monotonic() + _START_S
        while not self.answers():
            if self._ended.wait(0.05) or time.monotonic() > deadline:
                raise DidNotStart(
                    f"ZooKeeper did not start in {self.directory}: {self._last_words()}"
                )
        log.info("embedded zookeeper started address=%s pid=%s", self.address, self.pid)

    def _mind(self, start_event: threading.Event) -> None:
        """Start the child and wait for its end: the child lives only as long as this thread."""
        parent = [sys.executable, "-I", "-S", str(tether.__file__), str(os.getpid())]
        try:
            with (self.directory / zookeeper_files.CONSOLE).open("wb") as console:
                self._process = subprocess.Popen(
                    [*parent, *self._command],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    pass_fds=[] if self._lock.closed else [self._lock.fileno()],
                    start_new_session=True,  # Ctrl-C is for this process, which stops the child
                )
            start_event.set()
            self._process.wait()
        finally:
            self._ended.set()
            start_event.set()

    def _last_words(self) -> str:
        """The end of the server's output, the only hint to why it ended."""
        if not self._ended.is_set():
            return f"it does not answer at {self.address} after {_START_S:g} s"
        for name in (zookeeper_files.LOG, zookeeper_files.CONSOLE):
            path = self.directory / name
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            if lines:
                return f"its {path} ends: " + " | ".join(lines[-_LOG_LINES:])
        return f"it ended with code {self._process.returncode if self._process else None}"


def read_secret(data_dir: Path) -> str | None:
    """Reads the secret of the server with this directory; returns None if it has none."""
    path = data_dir / "secret"
    return path.read_text().strip() if path.exists() else None


def run_configured(config: ZooKeeperConfig, manager: Supervisor) -> int:
    """Runs a server until SIGTERM or SIGINT, or until it exits unexpectedly. Returns an exit code.

    Must be called on the main thread.
    """
    stop_requested = threading.Event()
    old_handlers = {
        signal_number: signal.signal(signal_number, lambda *_: stop_requested.set())
        for signal_number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        server = EmbeddedZooKeeper.start_configured(config)
        try:
            return _watch(server, stop_requested, manager)
        finally:
            manager.tell(STOPPING)
            server.stop()
    finally:
        for signal_number, handler in old_handlers.items():
            signal.signal(signal_number, handler)


def _watch(server: EmbeddedZooKeeper, stop_requested: threading.Event, manager: Supervisor) -> int:
    """Watch the server until a stop is requested or it ends. A hanging server is not reported as
    alive."""
    manager.tell(READY, status(server.mode_text()))
    interval = manager.watchdog_seconds / 3 or _LOOK_S
    checked_at = time.monotonic()
    while not stop_requested.wait(_TURN_S):
        if not server.is_running():
            log.error("zookeeper exited unexpectedly code=%s", server.wait())
            return 1
        if time.monotonic() - checked_at >= interval:
            checked_at = time.monotonic()
            if server.answers():
                manager.tell(ALIVE, status(server.mode_text()))
    return 0


def _unusable(directory: Path, error: OSError) -> DirectoryUnusable:
    return DirectoryUnusable(f"ZooKeeper's directory {directory} cannot be used: {error.strerror}")


def _lock(directory: Path) -> DirectoryLock:
    try:
        return DirectoryLock(directory / "lock", patience_s=_LOCK_S)
    except InUse:
        raise DirectoryUnusable(
            f"ZooKeeper's directory {directory} is in use by another ZooKeeper"
        ) from None


def _secret(directory: Path) -> str:
    secret = read_secret(directory)
    if secret is not None:
        return secret
    new_secret = secrets.token_urlsafe(32)
    replace_file(directory / "secret", f"{new_secret}\n".encode(), mode=0o600)
    return new_secret


def _can_listen(host: str, port: int) -> bool:
    try:
        return listening.is_free(host, port)
    except OSError as error:
        raise DidNotStart(f"ZooKeeper cannot listen on {host}:{port}: {error.strerror}") from None
