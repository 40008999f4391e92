"""What a registry can be told in its configuration file. Checked when it is loaded, once."""

import msgspec

from client.addresses import Address, check_brokers, parse_addresses
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from registry.values import Level
from serving.exposure import check_exposed, is_everywhere

_HIGHEST_ID = 2**31 - 1


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients can make a registry hold. Sizes in bytes, times in seconds."""

    connections: int = 1_000
    request_bytes: int = 2 * 1024 * 1024
    waiting_writes: int = 1_000
    forwarding_connections: int = 64
    idle_connection_seconds: float = 60.0
    stalled_request_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class Patience(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long something may take before it is given up, in seconds."""

    start: float = 60.0  # for the brokers to be there, and for each next part of the topic
    publish: float = 10.0  # for the topic to take a write
    forward: float = 10.0  # for a writer to be there and take a write
    write: float = 25.0  # for a client's whole write

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One registry."""

    brokers: tuple[str, ...] = ("127.0.0.1:9092",)
    cluster: str = "local"
    topic: str = "_schemas"
    replication_factor: int = 1
    zookeeper: str = ""
    zookeeper_secret: str = ""
    zookeeper_session_seconds: float = 6.0
    host: str = "127.0.0.1"
    port: int = 8081
    advertised_host: str = ""
    advertised_port: int = 0
    insecure: bool = False
    compatibility: Level = Level.BACKWARD
    id_base: int = 1
    id_count: int | None = None
    read_only: bool = False
    sign_of_life_seconds: float = 3600.0
    limits: Limits = Limits()
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise ValueError(f"`topic`: {error}") from None
        if self.zookeeper == "embedded":
            raise ValueError(
                "`zookeeper: embedded` is a broker's: name the one that the other registries use, "
                "or leave the key out if this registry is alone"
            )
        for name in ("port", "advertised_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 0 and 65535")
        check_exposed("host", self.host, insecure=self.insecure)
        if self.zookeeper and not self.advertised_host and is_everywhere(self.host):
            raise ValueError(
                f"`host: {self.host}` is no address that other registries can connect to: say "
                "`advertised_host`"
            )
        if self.replication_factor < 1:
            raise ValueError("`replication_factor` must be positive")
        if not 2.0 <= self.zookeeper_session_seconds <= 60.0:
            raise ValueError("`zookeeper_session_seconds` must be between 2 and 60")
        if self.sign_of_life_seconds <= 0:
            raise ValueError("`sign_of_life_seconds` must be positive")
        if not 1 <= self.id_base <= _HIGHEST_ID:
            raise ValueError(f"`id_base` must be between 1 and {_HIGHEST_ID}")
        if self.id_count is not None and not 1 <= self.id_count <= _HIGHEST_ID + 1 - self.id_base:
            raise ValueError(
                f"`id_count` must be positive, and `id_base` + `id_count` at most {_HIGHEST_ID + 1}"
            )

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        return parse_addresses(",".join(self.brokers))

    @property
    def ids(self) -> range:
        """The ids that this registry may give."""
        end = _HIGHEST_ID + 1 if self.id_count is None else self.id_base + self.id_count
        return range(self.id_base, end)
