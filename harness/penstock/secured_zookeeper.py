"""A ZooKeeper with a TLS port, a plain port, and logins by DIGEST-MD5.

It runs with PySpark's jars, like the embedded one, and with those of Netty, which ZooKeeper's TLS
needs.
"""

from pathlib import Path
from typing import Final

from cluster.zookeeper_server import files as zookeeper_files
from cluster.zookeeper_server.jars import find_class_path
from harness.logins.certificates import Authority
from harness.penstock.clusters.zookeepers import ZooKeeperProcess, zookeeper_command
from harness.processes.server_process import free_ports

_NETTY: Final = (
    *("all", "buffer", "codec", "codec-base", "common", "handler", "resolver", "transport"),
    *("transport-classes-epoll", "transport-native-unix-common"),
)


class SecuredZooKeeper(ZooKeeperProcess):
    """A running ZooKeeper: `with SecuredZooKeeper(directory, authority, users={…}) as zookeeper`.
    Without users it accepts no logins; with `wants_certificates` clients need certificates."""

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
        port, self.tls_port = free_ports(2)
        config = zookeeper_files.server_config("127.0.0.1", port)
        config = config.replace("clientPortAddress=127.0.0.1\n", "")
        super().__init__(directory, port, config + self._tls_config())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    def spawn(self) -> None:
        """Starts the server with its current users."""
        options = []
        if self.users:
            (self._directory / "jaas.conf").write_text(_jaas(self.users))
            options = ["-Djava.security.auth.login.config=jaas.conf"]
        jars = Path(find_class_path().partition(":")[0]).parent
        netty_jars = [next(iter(jars.glob(f"netty-{name}-[0-9]*.jar"))) for name in _NETTY]
        self.process.command = zookeeper_command(*options, jars=netty_jars)
        super().spawn()

    def log(self) -> str:
        files = (self.process.output, self._directory / zookeeper_files.LOG)
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def stop(self) -> None:
        self.kill()

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
            "ssl.hostnameVerification": "false",  # of clients, whose names do not resolve
        }
        if self.users:
            provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            settings["authProvider.sasl"] = provider
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def _jaas(users: dict[str, str]) -> str:
    user_lines = "\n".join(f'    user_{name}="{secret}"' for name, secret in users.items())
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return f"Server {{\n    {module} required\n{user_lines};\n}};\n"
