"""A ZooKeeper with locks: a port that speaks TLS, one that does not, and logins by DIGEST-MD5.

It is started with PySpark's jars, as the embedded one is, and with those of Netty beside them,
which does ZooKeeper's TLS.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cluster import tether, zookeeper_files
from cluster.jars import find_class_path, find_java
from cluster.zookeeper import MAIN_CLASS
from harness.certificates import Authority
from harness.server_process import free_ports

_NETTY: Final = (
    *("all", "buffer", "codec", "codec-base", "common", "handler", "resolver", "transport"),
    *("transport-classes-epoll", "transport-native-unix-common"),
)
_START_S: Final = 60.0


class SecuredZooKeeper:
    """`with SecuredZooKeeper(directory, authority, users={…}) as zookeeper`. Without users nobody
    can log in; with `wants_certificates` clients must show some."""

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        *,
        users: dict[str, str] | None = None,
        wants_certificates: bool = False,
    ) -> None:
        self._directory = directory
        self._authority = authority
        self._wants_certificates = wants_certificates
        self.users = users or {}
        self.port, self.tls_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    def start(self) -> None:
        """With the users that it has now; waits until it serves."""
        own = self._directory
        (own / zookeeper_files.DATA).mkdir(parents=True, exist_ok=True)
        for name, text in zookeeper_files.logging_files().items():
            (own / name).write_text(text)
        config = zookeeper_files.server_config("127.0.0.1", self.port)
        config = config.replace("clientPortAddress=127.0.0.1\n", "")
        (own / zookeeper_files.SERVER_CONFIG).write_text(config + self._tls_config())
        options = [*zookeeper_files.JAVA_OPTIONS]
        if self.users:
            (own / "jaas.conf").write_text(_jaas(self.users))
            options += ["-Djava.security.auth.login.config=jaas.conf"]
        class_path = find_class_path()
        jars = Path(class_path.partition(":")[0]).parent
        found = [next(iter(jars.glob(f"netty-{name}-[0-9]*.jar"))) for name in _NETTY]
        with (own / zookeeper_files.CONSOLE).open("wb") as console:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(tether.__file__), str(os.getpid())),
                    *(str(find_java()), *options),
                    *("-cp", ":".join([class_path, *map(str, found)])),
                    *(MAIN_CLASS, zookeeper_files.SERVER_CONFIG),
                ],
                cwd=own,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self.log())
            time.sleep(0.05)

    def log(self) -> str:
        files = (self._directory / zookeeper_files.CONSOLE, self._directory / zookeeper_files.LOG)
        return "".join(each.read_text(errors="replace") for each in files if each.exists())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _tls_config(self) -> str:
        server = self._authority.sign("zookeeper")
        settings = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": str(self.tls_port),
            "ssl.keyStore.location": str(server.both),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(self._authority.ca),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need" if self._wants_certificates else "none",
            "ssl.hostnameVerification": "false",  # of clients, who have no name that resolves
        }
        if self.users:
            provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            settings["authProvider.sasl"] = provider
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                return connection.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False


def _jaas(users: dict[str, str]) -> str:
    known = "\n".join(f'    user_{name}="{secret}"' for name, secret in users.items())
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return f"Server {{\n    {module} required\n{known};\n}};\n"
