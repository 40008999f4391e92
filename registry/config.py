"""The registry's configuration file, validated once when it is loaded.

The docstring of a key's field is its text in `penstock keys` and docs/registry-configuration.md.
"""

from itertools import pairwise

import msgspec

from client.connection.addresses import check_brokers
from client.connection.bootstrap import Bootstrap
from client.connection.security import Security
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from cluster.session.security import ZooKeeperSecurity
from ground.administration.log import AdministrationLogConfig
from ground.http.security import HttpAccess, HttpSecurity, access_to, check_scheme
from ground.network.listening import check_exposed, is_everywhere, is_loopback
from ground.settings import Bytes, FilePath, HostAndPort, Port, Seconds
from ground.tls.certificate_expiry import CertificateFiles
from ground.tls.certificate_names import NameRule
from ground.tls.client import Tls
from ground.tls.server import ListenerTls
from registry.access.permissions import Permission
from registry.schemas_topic.values import Level

_HIGHEST_ID = 2**31 - 1
_SCHEMAS = "_schemas"  # default topic name


class MirroredSchemas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The schemas of another cluster, whose topic a mirror copies into this cluster."""

    topic: str
    """The copy, such as `dc1._schemas`."""
    prefix: str = ""
    """Prefix of its subjects here, as for copied topics. Default: the topic's name without
    `_schemas`, such as `dc1.`."""

    def __post_init__(self) -> None:
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise ValueError(f"`topic`: {error}") from None
        if not self.subjects:
            raise ValueError(
                f"`prefix` is required: the topic name {self.topic} is not PREFIX{_SCHEMAS}, so "
                "there is no default"
            )
        if any(ord(character) < 32 for character in self.prefix) or len(self.prefix) > 249:
            raise ValueError("`prefix` must have at most 249 characters and no control characters")

    @property
    def subjects(self) -> str:
        """The prefix of the subjects: the configured one, or else the one in the topic's name."""
        prefix = self.topic.removesuffix(_SCHEMAS)
        return self.prefix or ("" if prefix == self.topic else prefix)


class RegistryLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on clients' requests and on the registry's contents."""

    connections: int = 1_000
    """Open connections; further ones are answered with 503."""
    request_bytes: Bytes = 2 * 1024 * 1024
    """A larger body is answered with 42209, or with 413 on paths that register no schema."""
    waiting_writes: int = 1_000
    """Writes that may wait for the writer at the same time; further ones are answered with 503."""
    forwarding_connections: int = 64
    """Connections to the registry that writes."""
    idle_connection_seconds: Seconds = 60.0
    """A connection without a request for this long is closed."""
    stalled_request_seconds: Seconds = 30.0
    """Time for a request to arrive, and for a client to read an answer."""

    handshake_seconds: Seconds = 10.0
    """Time for a TLS handshake."""
    handshakes_of_a_host: int = 64
    """Concurrent TLS handshakes of one address (of IPv6, its /64); further ones are closed
    immediately."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts of operations, in seconds."""

    start: Seconds = 60.0
    """Until the brokers are reachable, and without progress while the topic is read at start."""
    publish: Seconds = 10.0
    """For appending a write to the topic."""
    forward: Seconds = 10.0
    """For a write to reach the registry that writes, with retries."""
    write: Seconds = 25.0
    """For a client's write as a whole."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one registry."""

    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Bootstrap brokers of the cluster that holds the topic: Penstock's or Apache Kafka's."""
    security: Security = Security()
    """[Connections to brokers](secure-connections.md): TLS and login."""
    cluster: str = "local"
    """The cluster's name."""
    topic: str = _SCHEMAS
    """The topic that holds the schemas. Created if missing, with one partition, compacted. A topic
    with other settings is rejected."""
    replication_factor: int = 1
    """Replication factor of the topic when the registry creates it."""
    zookeeper: str = ""
    """Where registries elect the writer, `host:2181,host:2181/penstock`. Without it this registry
    is the only one."""
    zookeeper_secret: str = ""
    """The brokers' secret. Beside a broker with an embedded ZooKeeper: `zookeeper_secret_file:
    {data_dir}/zookeeper/secret`."""
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """[Connections to ZooKeeper](broker-access.md#a-zookeeper-with-tls-and-logins): TLS and
    login."""
    zookeeper_session_seconds: Seconds = 6.0
    """Silence after which the writer is replaced: from 2 to 60."""
    host: str = "127.0.0.1"
    """Listen address."""
    port: Port = 8081
    """Listen port; 0: any free port."""
    advertised_host: str = ""
    """Host to which other registries send writes. Default: `host`."""
    advertised_port: Port = 0
    """Port to which other registries send writes; 0: `port`."""
    insecure: bool = False
    """Allows an address that other machines can reach without authentication or without `tls`.
    Logged at each start, and shown in `/metrics`."""
    tls: ListenerTls | None = None
    """[TLS](#tls-and-logins). With a `client_ca`, client certificates are logins too."""
    certificate_names: tuple[NameRule, ...] = ()
    """[Principals of client certificates](#tls-and-logins): the first rule that matches decides.
    Default: the certificate's common name."""
    users_file: FilePath = ""
    """Users with passwords: [a file, one user a line](#tls-and-logins). Read again when it
    changes."""
    tokens_file: FilePath = ""
    """Bearer tokens: [a file, one token a line](#tls-and-logins). Read again when it changes."""
    permissions: tuple[Permission, ...] = ()
    """[Permissions](#permissions) where logins are required: what no rule allows is refused."""
    open_metrics: bool = False
    """Answers `/metrics` without a login. `/healthz` and `/readyz` never need one."""
    registries: tuple[str, ...] = ()
    """Principals of the other registries. Only these may forward a write on behalf of a client."""
    forwarding_security: HttpSecurity = HttpSecurity()
    """Login and TLS of this registry when it forwards writes to the one that writes."""
    administration_log: AdministrationLogConfig = AdministrationLogConfig()
    """[Log](administration.md) of registered and deleted schemas and changed levels and modes.
    Without its `file`, only the program's log has them."""
    compatibility: Level = Level.BACKWARD
    """Level of subjects without one of their own."""
    id_base: int = 1
    """The first id to assign. Registries that are written independently need disjoint ranges,
    because an id must mean the same schema wherever their data meets."""
    id_count: int | None = None
    """How many ids may be assigned, from `id_base` on. Default: all."""
    read_only: bool = False
    """For a topic that a mirror fills: serves reads only and reports READONLY."""
    mirrored: tuple[MirroredSchemas, ...] = ()
    """Schemas of other clusters to [serve as well](registry.md#schemas-of-other-clusters),
    read-only."""
    sign_of_life_seconds: Seconds = 3600.0
    """Interval after which an idle writer appends a record without content. Brokers forget a
    producer that is silent for a day, and with it that older epochs are fenced."""
    limits: RegistryLimits = RegistryLimits()
    patience: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise ValueError(f"`topic`: {error}") from None
        _check_apart(self.topic, self.mirrored)
        if self.zookeeper == "embedded":
            raise ValueError(
                "`zookeeper: embedded` is for brokers: give the address that the other registries "
                "use, or omit the key if this is the only registry"
            )
        for name in ("port", "advertised_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 0 and 65535")
        self._check_locks()
        if self.zookeeper and not self.advertised_host and is_everywhere(self.host):
            raise ValueError(
                f"`host: {self.host}` is not an address that other registries can connect to: set "
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

    def _check_locks(self) -> None:
        if not self.has_logins or self.tls is None:
            check_exposed("host", self.host, insecure=self.insecure)
        if self.certificate_names and not (self.tls and self.tls.client_ca):
            raise ValueError("`certificate_names` needs `tls` with a `client_ca`")
        if self.has_logins and not self.permissions:
            raise ValueError(
                "logins are required, and without `permissions` no principal may do anything: add "
                'some, such as `- {principal: "*", subjects: "*", may: [read]}`'
            )
        if not self.has_logins and (self.permissions or self.registries):
            key = "permissions" if self.permissions else "registries"
            raise ValueError(
                f"`{key}` needs logins: `users_file`, `tokens_file`, or `tls` with a `client_ca`"
            )
        try:
            check_scheme(self.forwarding_security, "https" if self.tls else "http")
        except ValueError as error:
            raise ValueError(f"`forwarding_security`: {error}") from None
        own_tls = self.forwarding_security.tls
        has_certificate = own_tls is not None and bool(own_tls.certificate)
        has_identity = self.forwarding_security.has_login or has_certificate
        if self.tls and self.tls.requires_certificates:
            has_identity = has_certificate
        if self.zookeeper and self.has_logins and not (self.registries and has_identity):
            raise ValueError(
                "registries that require logins must log in to each other: set `registries` (their "
                "principals) and `forwarding_security` (the login of this one)"
            )

    @property
    def has_logins(self) -> bool:
        """Whether clients must log in."""
        return bool(self.users_file or self.tokens_file or (self.tls and self.tls.client_ca))

    @property
    def is_open_to_anybody(self) -> bool:
        """Whether other machines can connect without a login or without TLS; needs `insecure`."""
        return not is_loopback(self.host) and not (self.has_logins and self.tls)

    @property
    def access_to_others(self) -> HttpAccess:
        """How this registry reaches the others: by TLS if it serves TLS itself."""
        security = self.forwarding_security
        if self.tls and security.tls is None:
            security = msgspec.structs.replace(security, tls=Tls())
        return access_to(security)

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def certificate_files(self) -> CertificateFiles:
        """Files to watch for expiry."""
        files = self.security.certificate_files | self.zookeeper_security.certificate_files
        return files if self.tls is None else files | self.tls.certificate_files

    @property
    def ids(self) -> range:
        """The ids that this registry may assign."""
        end = _HIGHEST_ID + 1 if self.id_count is None else self.id_base + self.id_count
        return range(self.id_base, end)


def _check_apart(own: str, mirrored: tuple[MirroredSchemas, ...]) -> None:
    """Reject topics that are named twice, and prefixes that begin with another prefix."""
    topics = [own, *(schemas.topic for schemas in mirrored)]
    if duplicate := next((topic for topic in topics if topics.count(topic) > 1), None):
        raise ValueError(f"`mirrored`: duplicate topic {duplicate}")
    prefixes = sorted(schemas.subjects for schemas in mirrored)
    for prefix, longer_prefix in pairwise(prefixes):
        if longer_prefix.startswith(prefix):
            raise ValueError(f"`mirrored`: the prefixes {prefix!r} and {longer_prefix!r} overlap")
