"""The layout of the directory of `penstock up`, and the addresses of its programs. Pure.

{directory}/
    config/         a file for each program, written anew at every start
    inputs.d/       what the agent follows: the user's, and read again while it runs
    logs/           a file for each program, cut when it is long
    zookeeper/ broker/ registry/ agent/ audit/      each program's own, and with a mirror
    offline-broker/ offline-registry/ mirror/
    warehouse/      where the loader lands tables
    security/       keys, where everything is behind locks (see locks.py)
    environment     for `.`: the addresses, as variables that all commands know
    environment-offline     the same of the offline cluster, where a mirror copies into one
    alert-url       where alerts are sent to
    up.json         what the next start goes on with
    restart/        a file for each program that is to be restarted
    lock            held while it runs
"""

from pathlib import Path
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65_535
PRIVATE: Final = 0o700  # the directory's mode, if it is made here: logs of others may be in it
_FOLDERS: Final = (
    "config", "inputs.d", "logs", "zookeeper", "broker", "registry", "agent", "audit", "loader",
    "offline-broker", "offline-registry", "mirror", "warehouse", "security", "restart",
)  # fmt: skip
CLUSTER: Final = "local"
# With a mirror there are two in its place.
SOURCE: Final = "dc1"
OFFLINE: Final = "offline"
WINDOW_SECONDS: Final = 10  # short, so that a verdict is there soon; all programs have the same


class Ports(NamedTuple):
    """The ports of a pipeline on one machine, by default each program's own."""

    zookeeper: int = 2181
    broker: int = 9092
    broker_http: int = 9095
    registry: int = 8081
    audit: int = 8090
    agent_http: int = 9464

    @classmethod
    def beginning_at(cls, base: int) -> "Ports":
        """One after the other. Raises ValueError where there are not so many."""
        ports = range(base, base + len(cls._fields))
        if not 0 < base <= _HIGHEST_PORT - len(ports):
            raise ValueError(f"{base} and the {len(ports) - 1} after it are not all ports")
        return cls(*ports)


class MirrorPorts(NamedTuple):
    """Those that a mirror and the cluster into which it copies have beside these."""

    offline_broker: int = 9192
    offline_broker_http: int = 9195
    offline_registry: int = 8181
    mirror_http: int = 9466

    @classmethod
    def beginning_at(cls, base: int) -> "MirrorPorts":
        """Behind those of the pipeline that begin there. Raises ValueError where there are not so
        many."""
        first = base + len(Ports._fields)
        ports = range(first, first + len(cls._fields))
        if not 0 < base <= _HIGHEST_PORT - len(Ports._fields) - len(ports):
            raise ValueError(f"{base} and the {ports[-1] - base} after it are not all ports")
        return cls(*ports)


class Addresses(NamedTuple):
    """Where commands find a pipeline. An empty `broker_http` or `agent` is not asked."""

    brokers: str = f"{HOST}:{Ports().broker}"
    registry: str = f"http://{HOST}:{Ports().registry}"
    audit: str = f"http://{HOST}:{Ports().audit}"
    agent: str = f"http://{HOST}:{Ports().agent_http}"
    broker_http: str = f"http://{HOST}:{Ports().broker_http}"  # some, by commas

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
        """The same pipeline, asked for the cluster into which it is copied."""
        http = self.registry.partition(":")[0]
        return self._replace(
            brokers=f"{HOST}:{ports.offline_broker}",
            registry=f"{http}://{HOST}:{ports.offline_registry}",
            broker_http=f"http://{HOST}:{ports.offline_broker_http}",
        )

    @property
    def page_wants_login(self) -> bool:
        """Whether the audit's page lets nobody in unasked."""
        return self.audit.startswith("https:")


class Places(NamedTuple):
    """The directory's parts. Absolute, as the programs are told them."""

    directory: Path

    def config(self, program: str) -> Path:
        return self.directory / "config" / f"{program}.yaml"

    def log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"

    def data(self, program: str) -> Path:
        return self.directory / program

    @property
    def folders(self) -> tuple[Path, ...]:
        """All that there may be; whatever else is in the directory is somebody else's."""
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
