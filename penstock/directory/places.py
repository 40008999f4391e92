"""The layout of the directory of `penstock up`, and the addresses of its programs. Pure.

{directory}/
    config/         a file for each program, replaced at every start
    inputs.d/       the agent's inputs, which the user may edit at any time
    logs/           a file for each program, truncated when it is long
    zookeeper/ broker/ registry/ agent/ audit/      each program's data
    offline-broker/ offline-registry/ mirror/       the same, with a mirror
    warehouse/      the loader's tables
    security/       keys and passwords of a secure pipeline (see locks.py)
    environment     environment variables with the addresses, to be sourced by a shell
    environment-offline     the same for the offline cluster, with a mirror
    alert-url       the URL to which alerts are sent
    up.json         the options of the last start
    restart/        a file for each program: executable, if it is to be restarted
    lock            locked while the pipeline runs
"""

from pathlib import Path
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65_535
PRIVATE: Final = 0o700  # for a new directory, as logs may be confidential
_FOLDERS: Final = (
    "config", "inputs.d", "logs", "zookeeper", "broker", "registry", "agent", "audit", "loader",
    "offline-broker", "offline-registry", "mirror", "warehouse", "security", "restart",
)  # fmt: skip
CLUSTER: Final = "local"
# With a mirror, two clusters replace it.
SOURCE: Final = "dc1"
OFFLINE: Final = "offline"
WINDOW_SECONDS: Final = 10  # of all programs: short, for early verdicts


class Ports(NamedTuple):
    """The ports of a pipeline on one machine, by default the usual ones."""

    zookeeper: int = 2181
    broker: int = 9092
    broker_http: int = 9095
    registry: int = 8081
    audit: int = 8090
    agent_http: int = 9464

    @classmethod
    def beginning_at(cls, base: int) -> "Ports":
        """Returns consecutive ports from `base` on. Raises ValueError if they would exceed the
        highest port."""
        ports = range(base, base + len(cls._fields))
        if not 0 < base <= _HIGHEST_PORT - len(ports):
            raise ValueError(f"not all ports from {base} to {ports[-1]} are valid")
        return cls(*ports)


class MirrorPorts(NamedTuple):
    """The ports of a mirror, and of the cluster into which it copies."""

    offline_broker: int = 9192
    offline_broker_http: int = 9195
    offline_registry: int = 8181
    mirror_http: int = 9466

    @classmethod
    def beginning_at(cls, base: int) -> "MirrorPorts":
        """Returns the ports that follow those of the pipeline, which begin at `base`. Raises
        ValueError."""
        first_port = base + len(Ports._fields)
        ports = range(first_port, first_port + len(cls._fields))
        if not 0 < base <= _HIGHEST_PORT - len(Ports._fields) - len(ports):
            raise ValueError(f"not all ports from {base} to {ports[-1]} are valid")
        return cls(*ports)


class Addresses(NamedTuple):
    """The addresses of a pipeline that commands use. `broker_http` and `agent` may be empty."""

    brokers: str = f"{HOST}:{Ports().broker}"
    registry: str = f"http://{HOST}:{Ports().registry}"
    audit: str = f"http://{HOST}:{Ports().audit}"
    agent: str = f"http://{HOST}:{Ports().agent_http}"
    broker_http: str = f"http://{HOST}:{Ports().broker_http}"  # separated by commas

    @classmethod
    def of(cls, ports: Ports, *, secure: bool = False) -> "Addresses":
        http = "https" if secure else "http"
        return cls(
            brokers=f"{HOST}:{ports.broker}",
            registry=f"{http}://{HOST}:{ports.registry}",
            audit=f"{http}://{HOST}:{ports.audit}",
            agent=f"http://{HOST}:{ports.agent_http}",
            broker_http=f"http://{HOST}:{ports.broker_http}",
        )

    def offline(self, ports: MirrorPorts) -> "Addresses":
        """The addresses that commands use for the cluster into which the mirror copies."""
        http = self.registry.partition(":")[0]
        return self._replace(
            brokers=f"{HOST}:{ports.offline_broker}",
            registry=f"{http}://{HOST}:{ports.offline_registry}",
            broker_http=f"http://{HOST}:{ports.offline_broker_http}",
        )

    @property
    def page_wants_login(self) -> bool:
        """Whether the audit's page requires a login."""
        return self.audit.startswith("https:")


class Places(NamedTuple):
    """The paths in the directory. They are absolute, since the programs' configurations contain
    them."""

    directory: Path

    def config(self, program: str) -> Path:
        return self.directory / "config" / f"{program}.yaml"

    def log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"

    def data(self, program: str) -> Path:
        return self.directory / program

    @property
    def folders(self) -> tuple[Path, ...]:
        """All of Penstock's folders; other files in the directory are the user's."""
        return tuple(map(self.directory.joinpath, _FOLDERS))

    @property
    def inputs(self) -> Path:
        return self.directory / "inputs.d"

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    @property
    def environment_offline(self) -> Path:
        return self.directory / "environment-offline"

    @property
    def saved_start(self) -> Path:
        return self.directory / "up.json"

    @property
    def alert_url(self) -> Path:
        """The file with the receiver of alerts, often a secret."""
        return self.directory / "alert-url"

    @property
    def restart(self) -> Path:
        """Requests of `penstock up --restart`."""
        return self.directory / "restart"

    @property
    def lock(self) -> Path:
        return self.directory / "lock"
