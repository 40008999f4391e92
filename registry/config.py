"""What a registry can be told in its configuration file. Checked when it is loaded, once.

Each key is explained at its field: `penstock keys` and docs/registry.md have it from there.
"""

import msgspec

from client.addresses import check_brokers
from client.bootstrap import Bootstrap
from client.security import Security
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from ground.listening import check_exposed, is_everywhere
from ground.settings import Bytes, HostAndPort, Port, Seconds
from registry.values import Level

_HIGHEST_ID = 2**31 - 1


class RegistryLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients can make a registry hold."""

    connections: int = 1_000
    """Open at a time; more are told to come back (503)."""
    request_bytes: Bytes = 2 * 1024 * 1024
    """A larger body is answered with 42209, or 413 where no schema is registered."""
    waiting_writes: int = 1_000
    """Writes that wait for the writer at a time; more are told to come back."""
    forwarding_connections: int = 64
    """Connections to the registry that writes."""
    idle_connection_seconds: Seconds = 60.0
    """Without a request for so long, a connection is closed."""
    stalled_request_seconds: Seconds = 30.0
    """So long a request may take to arrive, and an answer to be read."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long something may take before it is given up, in seconds."""

    start: Seconds = 60.0
    """For the brokers to be there, and for each next part of the topic to be read."""
    publish: Seconds = 10.0
    """For the topic to take a write."""
    forward: Seconds = 10.0
    """For a registry that writes to be there and take a write."""
    write: Seconds = 25.0
    """For a client's whole write."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One registry."""

    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Some brokers of the cluster that has the topic: Penstock's or Apache Kafka's."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""
    cluster: str = "local"
    """The cluster's name."""
    topic: str = "_schemas"
    """Where schemas are kept. Created if it is not there: one partition, compacted. One that is
    not like that is refused."""
    replication_factor: int = 1
    """Of the registry's topic, when it is created."""
    zookeeper: str = ""
    """Where registries elect the one that writes, `host:2181,host:2181/penstock`. Without it
    this registry is the only one."""
    zookeeper_secret: str = ""
    """The brokers'. Beside a broker with an embedded ZooKeeper: `zookeeper_secret_file:
    {data_dir}/zookeeper/secret`."""
    zookeeper_session_seconds: Seconds = 6.0
    """After how long a silent writer is replaced: from 2 to 60."""
    host: str = "127.0.0.1"
    """The address that it listens on."""
    port: Port = 8081
    """The port that it listens on; 0: any that is free."""
    advertised_host: str = ""
    """The host to which other registries send writes. Without it: `host`."""
    advertised_port: Port = 0
    """The port to which other registries send writes; 0: `port`."""
    insecure: bool = False
    """Allows addresses that other machines can reach, although nobody has to authenticate."""
    compatibility: Level = Level.BACKWARD
    """The level for subjects where nobody has set another."""
    id_base: int = 1
    """The first id that it gives. Registries that are written independently of each other get
    disjoint ranges, because an id must mean one schema wherever data meets."""
    id_count: int | None = None
    """How many ids it may give, from `id_base` on. Without it: all there are."""
    read_only: bool = False
    """For a topic that a mirror fills: serves, writes nothing, says READONLY."""
    sign_of_life_seconds: Seconds = 3600.0
    """So long a writer may have had nothing to write before it writes a record that says
    nothing, since brokers forget a producer that is silent for a day, and with it that older
    ones are fenced off."""
    limits: RegistryLimits = RegistryLimits()
    patience: Timeouts = Timeouts()

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
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def ids(self) -> range:
        """The ids that this registry may give."""
        end = _HIGHEST_ID + 1 if self.id_count is None else self.id_base + self.id_count
        return range(self.id_base, end)
