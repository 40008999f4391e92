"""Where the programs of a pipeline are reached. Pure."""

from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65_535


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


class Addresses(NamedTuple):
    """Where commands find a pipeline. An empty `broker_http` is not asked."""

    brokers: str = f"{HOST}:{Ports().broker}"
    registry: str = f"http://{HOST}:{Ports().registry}"
    audit: str = f"http://{HOST}:{Ports().audit}"
    agent: str = f"http://{HOST}:{Ports().agent_http}"
    broker_http: str = f"http://{HOST}:{Ports().broker_http}"  # some, by commas

    @classmethod
    def of(cls, ports: Ports) -> "Addresses":
        return cls(
            brokers=f"{HOST}:{ports.broker}",
            registry=f"http://{HOST}:{ports.registry}",
            audit=f"http://{HOST}:{ports.audit}",
            agent=f"http://{HOST}:{ports.agent_http}",
            broker_http=f"http://{HOST}:{ports.broker_http}",
        )
