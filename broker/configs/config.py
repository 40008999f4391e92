"""The keys of a broker's configuration file, checked once when it is loaded.

Each key is explained at its field; `penstock keys` and docs/broker-configuration.md take the text
from there."""

from typing import Any

import msgspec

from broker.configs.listeners import PLAINTEXT, BetweenBrokers, ListenerConfig, check_listeners
from broker.logins.tokens import TokenRules
from client.connection.security import Mechanism
from cluster.session.security import ZooKeeperSecurity
from ground.administration.log import AdministrationLogConfig
from ground.http.page_locks import PageLocks, check_pages
from ground.http.security import HttpSecurity
from ground.network.listening import check_exposed, is_loopback
from ground.settings import Bytes, FolderPath, Port, Seconds, Url, WholeSeconds, check_positive
from ground.tls.certificate_expiry import CertificateFiles
from schemas.remote.address import RegistryAddress, check_registry
from wire.acls import EVERYBODY, USER

_BOTH_WAYS = (
    "use `zookeeper: embedded` for one that this broker starts and stops, or `zookeeper: "
    "host:2181,host:2181/penstock` for your own"
)


class BrokerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on what clients can make a broker hold."""

    connections: int = 20_000
    """Open connections; more are closed at once."""
    partitions: int = 10_000
    """Partitions on this broker; requests for topics and partitions beyond that are rejected."""
    request_bytes: Bytes = 32 * 1024 * 1024
    """The largest request, in bytes."""
    requests_in_memory_bytes: Bytes = 64 * 1024 * 1024
    """Memory for requests that have not arrived completely, plus one more request; half of it for
    one address. While it is used up, clients are not read from, and connections of clients that
    stop sending are closed."""
    unsent_response_bytes: Bytes = 1024 * 1024
    """Unsent responses of a connection; a client that does not read its responses is not read from
    either."""
    send_buffer_bytes: Bytes = 512 * 1024
    """The kernel's send buffer of a connection. Over a link of 50 ms the default allows about 20
    MB/s for each consumer; use more for longer distances, less for many slow readers."""
    requests_per_connection: int = 1_000
    """Unanswered requests of a connection."""
    percent_without_rights: float = 5.0
    """The share of the broker's thread for each user who has no rights by the ACLs and no quota of
    its own, in percent."""
    groups: int = 10_000
    """Consumer groups coordinated by this broker; new ones beyond that are rejected. A client may
    have as many as are left for others: alone, half of them."""
    group_members_bytes: Bytes = 128 * 1024 * 1024
    """Metadata of all members of all groups; further members are rejected. Shared among clients in
    the same way as groups."""
    commits_in_memory_bytes: Bytes = 64 * 1024 * 1024
    """Offsets that wait to be written; a quarter of it for one group. Commits beyond that are told
    to retry."""
    stalled_request_seconds: Seconds = 30.0
    """A connection without progress within a request or a response for this long is closed; so is
    one that must log in, and has not by then."""
    idle_connection_seconds: Seconds = 600.0
    """A connection without any request for this long is closed."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")
        if self.requests_in_memory_bytes < self.request_bytes:
            raise ValueError("`requests_in_memory_bytes` must be at least `request_bytes`")


class Intervals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The intervals of a broker's regular work on its logs, in seconds."""

    checkpoint: Seconds = 5.0
    """The interval between checkpoints. Each is for every twelfth partition, and for those with 4
    MiB since their last one: this bounds what recovery must read."""
    retention: Seconds = 60.0
    """The interval between checks for data beyond its retention."""
    compaction: Seconds = 15.0
    """The interval between checks for logs to compact."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class Checks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The checks by which a broker with a ledger verifies that stored data is still what was
    sent."""

    landed: bool = True
    """Every batch is read once after it was written, and its CRC is computed. Without this, only
    headers are read."""
    scrub_seconds: Seconds = 604_800.0
    """The interval between complete readings of all stored data; 0: never."""
    scrub_bytes_per_second: Bytes = 5_000_000
    """The maximal speed of such a reading."""
    young_age: Seconds = 86_400.0
    """How long stored data counts as young after it was written. A segment is as young as its
    newest data."""
    young_seconds: Seconds = 3_600.0
    """The interval between readings of young data; 0: only as a part of the complete reading."""
    young_bytes_per_second: Bytes = 20_000_000
    """The maximal speed of reading young data, in addition to `scrub_bytes_per_second`. The default
    reads 72 GB in an hour; with more young data, a reading takes longer."""

    def __post_init__(self) -> None:
        for name in ("scrub_seconds", "young_age", "young_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative")
        for name in ("scrub_bytes_per_second", "young_bytes_per_second"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class ReplicationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that keep replicas in sync."""

    lag_seconds: Seconds = 10.0
    """How long a follower may take to catch up with its leader before it leaves the in-sync set."""
    fetch_wait: Seconds = 0.5
    """How long a leader waits for data before it answers a follower."""
    fetch_bytes: Bytes = 16 * 1024 * 1024
    """The most bytes that a follower fetches from a leader at a time; a replica that catches up, 4
    MiB at most."""
    preferred_leaders_seconds: Seconds = 300.0
    """How often leadership returns to the preferred replica (the first) of each partition."""

    def __post_init__(self) -> None:
        for name in ("lag_seconds", "fetch_wait", "fetch_bytes", "preferred_leaders_seconds"):
            check_positive(self, name)
        if self.fetch_wait >= self.lag_seconds:
            raise ValueError("`fetch_wait` must be less than `lag_seconds`")


class AuthorizationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Permissions besides the [ACLs](broker-access.md#authorization)."""

    super_users: tuple[str, ...] = ()
    """Principals that may do everything, regardless of ACLs. The prefix `User:` is optional."""
    allow_if_no_acl: bool = False
    """Whether a resource without any ACL is open to all users."""

    def __post_init__(self) -> None:
        for name in self.super_users:
            if name in {"", "*", USER, EVERYBODY}:
                raise ValueError(
                    f"`super_users` has {name!r}: each entry must be the name of one principal, "
                    "and cannot stand for all users"
                )


class GroupsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[Consumer groups](groups.md) that a broker coordinates."""

    initial_rebalance_delay: Seconds = 3.0
    """How long the first generation of a group waits for more members
    (`group.initial.rebalance.delay.ms`)."""
    least_session: Seconds = 6.0
    """The shortest session timeout that a member may request (`group.min.session.timeout.ms`)."""
    most_session: Seconds = 1800.0
    """The longest session timeout that a member may request (`group.max.session.timeout.ms`)."""
    most_members: int = 5_000
    """Members of one group (`group.max.size`)."""
    offsets_retention: Seconds = 604_800.0
    """How long a group without members keeps its offsets (`offsets.retention.minutes`)."""
    offset_metadata_bytes: Bytes = 4096
    """The largest metadata of a committed offset, in bytes (`offset.metadata.max.bytes`)."""

    def __post_init__(self) -> None:
        for name in ("least_session", "most_session", "most_members", "offsets_retention"):
            check_positive(self, name)
        if self.initial_rebalance_delay < 0:
            raise ValueError("`initial_rebalance_delay` must not be negative")
        if self.offset_metadata_bytes < 0:
            raise ValueError("`offset_metadata_bytes` must not be negative")
        if self.least_session > self.most_session:
            raise ValueError("`least_session` must not be more than `most_session`")


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration file of one broker."""

    id: int
    """The broker's id, unique in its cluster."""
    data_dir: FolderPath
    """The directory of its logs; belongs to this broker of this cluster, and is locked while it
    runs."""
    zookeeper: str = ""
    """Required: `embedded`, or `host:2181,host:2181/penstock`; without a chroot it is
    `/penstock`."""
    cluster: str = "local"
    """The cluster's name in the ledger."""
    host: str = "127.0.0.1"
    """The address that it listens on."""
    port: Port = 9092
    """The port that it listens on; 0: any that is free."""
    advertised_host: str = ""
    """The host that clients connect to. Default: `host`."""
    advertised_port: Port = 0
    """The port that clients connect to; 0: `port`."""
    listeners: tuple[ListenerConfig, ...] = ()
    """The listeners, with their protocols and logins. For a single one that is open to this
    machine, `host` and `port` are the short form."""
    between_brokers: BetweenBrokers | None = None
    """How this broker's own processes, and the cluster's other brokers, connect to it. Default:
    through the first listener that has neither TLS nor logins."""
    replication: ReplicationConfig = ReplicationConfig()
    """How replicas are kept in sync."""
    groups: GroupsConfig = GroupsConfig()
    """[Consumer groups](groups.md) coordinated by this broker."""
    tokens: TokenRules | None = None
    """The tokens that are accepted, if `OAUTHBEARER` is among the `logins` of a listener."""
    http_host: str = "127.0.0.1"
    """The address of `/metrics`, `/healthz` and `/readyz`."""
    http_port: Port = 9095
    """The port of `/metrics`, `/healthz` and `/readyz`; 0: any that is free."""
    http: PageLocks = PageLocks()
    """[Who sees](broker-access.md#access-to-the-pages) `/metrics`: TLS, certificates, tokens."""
    rack: str = ""
    """Replicas of a partition are spread over racks, and clients are told the rack. Without it, the
    brokers of one machine count as one rack, which clients are not told."""
    insecure: bool = False
    """Allows addresses that other machines can reach without authentication. Reported at each
    start, and in `/metrics`."""
    authorization: AuthorizationConfig | None = None
    """With this, clients may only do what [ACLs](broker-access.md#authorization) allow them;
    `authorization: {}` is enough. Without it, every client may do everything."""
    administration_log: AdministrationLogConfig = AdministrationLogConfig()
    """The log of [administrative changes](administration.md): who changed which topics, configs,
    ACLs, users and quotas."""
    auto_create_topics: bool = True
    """Whether a topic is created when a client first uses it."""
    topic_defaults: dict[str, Any] = {}
    """Defaults for new topics: `partitions` (1), `replication_factor` (1) and any [topic
    config](#topic-configs)."""
    zookeeper_port: Port = 2181
    """The port on which the embedded ZooKeeper listens."""
    zookeeper_dir: FolderPath = ""
    """The data directory of the embedded ZooKeeper. Default: `zookeeper` in `data_dir`."""
    zookeeper_jars: FolderPath = ""
    """The embedded ZooKeeper's jars. Default: those of PySpark, or of Debian's package."""
    zookeeper_secret: str = ""
    """Protects the nodes in ZooKeeper: only brokers with this secret can change them. It must be
    the same for all brokers of a cluster. The embedded ZooKeeper makes its own. Keep it in a file:
    `zookeeper_secret_file`."""
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """Connections to [ZooKeeper](broker-access.md#a-zookeeper-with-tls-and-logins): TLS, and a
    login."""
    zookeeper_session_seconds: Seconds = 9.0
    """How long a silent broker counts as alive: from 2 to 60."""
    ledger: bool = True
    """Whether the broker keeps a [ledger](broker-in-detail.md#the-ledger)."""
    registry: Url = ""
    """The address of the schema registry, `http://host:8081`, or several separated by commas: it
    has the schema of [the ledger](broker-in-detail.md#the-ledger). Without it this broker keeps no
    ledger, and logs that when it starts."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the broker connects to the registry](secure-connections.md#a-registry-with-logins):
    TLS, and a login."""
    ledger_interval: Seconds = 10.0
    """The interval between counts of the logs for the ledger."""
    window: WholeSeconds = 60
    """The length of the ledger's windows: must divide an hour, and be the same as the agents'."""
    limits: BrokerLimits = BrokerLimits()
    intervals: Intervals = Intervals()
    checks: Checks = Checks()

    def __post_init__(self) -> None:
        if not 0 <= self.id < 2**31:
            raise ValueError("`id` must be between 0 and 2147483647")
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not self.zookeeper:
            raise ValueError(f"`zookeeper` is missing: {_BOTH_WAYS}")
        if self.embeds_zookeeper and self.zookeeper_security != ZooKeeperSecurity():
            raise ValueError(
                "`zookeeper_security` is for a ZooKeeper of your own: the embedded one is "
                "reachable from this machine only, and protected by a secret of its own"
            )
        for name in ("port", "http_port", "advertised_port", "zookeeper_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 0 and 65535")
        check_exposed("host", self.host, insecure=self.insecure)
        check_pages(self.http_host, self.http, insecure=self.insecure)
        self._check_listeners()
        if not 2.0 <= self.zookeeper_session_seconds <= 60.0:
            raise ValueError("`zookeeper_session_seconds` must be between 2 and 60")
        self._check_ledger()

    def _check_listeners(self) -> None:
        short_keys = (self.host, self.port, self.advertised_host, self.advertised_port)
        if self.listeners and short_keys != ("127.0.0.1", 9092, "", 0):
            raise ValueError(
                "with `listeners`, set `host`, `port` and the advertised address for each listener"
            )
        check_listeners(self.every_listener, self.between_brokers, insecure=self.insecure)
        needs_tokens = any(
            Mechanism.OAUTHBEARER in listener.logins for listener in self.every_listener
        )
        if needs_tokens and self.tokens is None:
            raise ValueError("`tokens` is missing: `logins: [OAUTHBEARER]` needs it")
        if self.keeps_ledger and self.between_brokers is None and self._open_listener is None:
            raise ValueError(
                "`between_brokers` is missing: name the listener that this broker's own processes "
                "use, and their login"
            )

    def _check_ledger(self) -> None:
        check_positive(self, "ledger_interval")
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        if self.registry:
            check_registry(self.registry, self.registry_security)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)

    @property
    def every_listener(self) -> tuple[ListenerConfig, ...]:
        if self.listeners:
            return self.listeners
        listener = ListenerConfig(
            name=PLAINTEXT,
            host=self.host,
            port=self.port,
            advertised_host=self.advertised_host,
            advertised_port=self.advertised_port,
        )
        return (listener,)

    @property
    def reaching(self) -> BetweenBrokers:
        """The settings with which this broker connects to other brokers: those of `between`."""
        is_reachable = self.between_brokers is not None or self._open_listener is not None
        return self.between if is_reachable else BetweenBrokers(listener="")

    @property
    def between(self) -> BetweenBrokers:
        """The settings with which this broker's own processes, and other brokers, connect to it."""
        if self.between_brokers is not None:
            return self.between_brokers
        listener = self._open_listener
        assert listener is not None, "checked when the configuration was loaded"
        return BetweenBrokers(listener=listener.name)

    @property
    def _open_listener(self) -> ListenerConfig | None:
        return next((listener for listener in self.every_listener if listener.is_open), None)

    @property
    def certificate_files(self) -> CertificateFiles:
        """Files whose expiry should be reported in time."""
        files = self.zookeeper_security.certificate_files | self.http.certificate_files
        if self.between_brokers is not None:
            files |= self.between_brokers.security.certificate_files
        for listener in self.listeners:
            if listener.tls is not None:
                files |= listener.tls.certificate_files
        return files

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """The addresses that are open to other machines, or unencrypted; they require
        `insecure`."""
        addresses = [
            f"listener {listener.name} on {listener.host}"
            for listener in self.every_listener
            if not listener.knows_everybody and not is_loopback(listener.host)
        ]
        if self.http.are_open(self.http_host):
            addresses.append(f"http_host {self.http_host}")
        return tuple(addresses)

    @property
    def keeps_ledger(self) -> bool:
        return self.ledger and bool(self.registry)

    @property
    def embeds_zookeeper(self) -> bool:
        return self.zookeeper == "embedded"
