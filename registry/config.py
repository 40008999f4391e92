"""What a registry can be told in its configuration file. Checked when it is loaded, once.

Each key is explained at its field: `penstock keys` and docs/registry.md have it from there.
"""

from itertools import pairwise

import msgspec

from client.addresses import check_brokers
from client.bootstrap import Bootstrap
from client.security import Security
from cluster.errors import InvalidTopicName
from cluster.names import check_topic_name
from cluster.security import ZooKeeperSecurity
from ground.administration_log import AdministrationLogConfig
from ground.certificate_expiry import CertificateFiles
from ground.certificate_names import NameRule
from ground.http_security import HttpAccess, HttpSecurity, access_to, check_scheme
from ground.listening import check_exposed, is_everywhere, is_loopback
from ground.server_tls import ListenerTls
from ground.settings import Bytes, FilePath, HostAndPort, Port, Seconds
from ground.tls import Tls
from registry.access.permissions import Permission
from registry.values import Level

_HIGHEST_ID = 2**31 - 1
_SCHEMAS = "_schemas"  # what a registry's topic is called, unless it is told otherwise


class MirroredSchemas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The schemas of another cluster, whose topic a mirror has copied into this one."""

    topic: str
    """The copy, such as `dc1._schemas`."""
    prefix: str = ""
    """What its subjects begin with here, as topics that were copied do. Without it: what stands
    before `_schemas`, such as `dc1.`."""

    def __post_init__(self) -> None:
        try:
            check_topic_name(self.topic)
        except InvalidTopicName as error:
            raise ValueError(f"`topic`: {error}") from None
        if not self.subjects:
            raise ValueError(
                f"`prefix` must say what the subjects of {self.topic} begin with here, as its name "
                f"is not PREFIX{_SCHEMAS}"
            )
        if any(ord(letter) < 32 for letter in self.prefix) or len(self.prefix) > 249:
            raise ValueError("`prefix` must be at most 249 characters, and no control characters")

    @property
    def subjects(self) -> str:
        """The prefix, said or understood."""
        named = self.topic.removesuffix(_SCHEMAS)
        return self.prefix or ("" if named == self.topic else named)


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

    handshake_seconds: Seconds = 10.0
    """So long a TLS handshake may take."""
    handshakes_of_a_host: int = 64
    """TLS handshakes of one address (of IPv6, its /64) that may be under way; more of it are closed
    at once."""

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
    topic: str = _SCHEMAS
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
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """[How ZooKeeper is connected to](broker.md#zookeeper-behind-locks): TLS, and a login."""
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
    """Allows addresses that other machines can reach, although nobody has to authenticate, or
    without `tls`. Said at each start, and in `/metrics`."""
    tls: ListenerTls | None = None
    """[TLS](#locks), and whether clients show certificates: then those are logins, too."""
    certificate_names: tuple[NameRule, ...] = ()
    """Whom clients' certificates [stand for](#locks): the first rule that matches decides. Without
    it: for their common name."""
    users_file: FilePath = ""
    """Who may log in with a password: [a file with a line for each](#locks). It is read again when
    it changes."""
    tokens_file: FilePath = ""
    """Who may come in with a token: [a file with a line for each](#locks). It is read again when
    it changes."""
    permissions: tuple[Permission, ...] = ()
    """[Who may do what](#permissions), where anybody has to log in: what no rule allows is
    refused."""
    open_metrics: bool = False
    """Whether `/metrics` is answered without a login. `/healthz` and `/readyz` always are."""
    registries: tuple[str, ...] = ()
    """As whom the other registries log in here: they are believed for whom they pass on a write,
    and nobody else is."""
    forwarding_security: HttpSecurity = HttpSecurity()
    """How this registry gets into the one that writes, to pass writes on."""
    administration_log: AdministrationLogConfig = AdministrationLogConfig()
    """Where it is [remembered](administration.md) who registered and deleted schemas, and changed
    levels and modes. Without its `file`: nowhere but in the program's log."""
    compatibility: Level = Level.BACKWARD
    """The level for subjects where nobody has set another."""
    id_base: int = 1
    """The first id that it gives. Registries that are written independently of each other get
    disjoint ranges, because an id must mean one schema wherever data meets."""
    id_count: int | None = None
    """How many ids it may give, from `id_base` on. Without it: all there are."""
    read_only: bool = False
    """For a topic that a mirror fills: serves, writes nothing, says READONLY."""
    mirrored: tuple[MirroredSchemas, ...] = ()
    """Schemas of other clusters that are [served as well](#schemas-of-other-clusters), to be read
    only."""
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
        _check_apart(self.topic, self.mirrored)
        if self.zookeeper == "embedded":
            raise ValueError(
                "`zookeeper: embedded` is a broker's: name the one that the other registries use, "
                "or leave the key out if this registry is alone"
            )
        for name in ("port", "advertised_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 0 and 65535")
        self._check_locks()
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

    def _check_locks(self) -> None:
        if not self.has_logins or self.tls is None:
            check_exposed("host", self.host, insecure=self.insecure)
        if self.certificate_names and not (self.tls and self.tls.client_ca):
            raise ValueError("`certificate_names` needs `tls` with a `client_ca`")
        if self.has_logins and not self.permissions:
            raise ValueError(
                "nobody who logs in may do anything: say `permissions`, such as "
                '`- {principal: "*", subjects: "*", may: [read]}`'
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
        shown = self.forwarding_security.tls
        has_certificate = shown is not None and bool(shown.certificate)
        is_somebody = self.forwarding_security.has_login or has_certificate
        if self.tls and self.tls.requires_certificates:
            is_somebody = has_certificate
        if self.zookeeper and self.has_logins and not (self.registries and is_somebody):
            raise ValueError(
                "registries that ask for logins need one among themselves: say as whom the others "
                "come (`registries`), and how this one gets in there (`forwarding_security`)"
            )

    @property
    def has_logins(self) -> bool:
        """Whether anybody has to log in."""
        return bool(self.users_file or self.tokens_file or (self.tls and self.tls.client_ca))

    @property
    def is_open_to_anybody(self) -> bool:
        """Whether others reach it without a login, or in the clear: only `insecure` allows that."""
        return not is_loopback(self.host) and not (self.has_logins and self.tls)

    @property
    def access_to_others(self) -> HttpAccess:
        """How writes are passed on: by TLS, if this registry is reached so itself."""
        security = self.forwarding_security
        if self.tls and security.tls is None:
            security = msgspec.structs.replace(security, tls=Tls())
        return access_to(security)

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def certificate_files(self) -> CertificateFiles:
        """Whose end somebody should know of in time."""
        found = self.security.certificate_files | self.zookeeper_security.certificate_files
        return found if self.tls is None else found | self.tls.certificate_files

    @property
    def ids(self) -> range:
        """The ids that this registry may give."""
        end = _HIGHEST_ID + 1 if self.id_count is None else self.id_base + self.id_count
        return range(self.id_base, end)


def _check_apart(own: str, mirrored: tuple[MirroredSchemas, ...]) -> None:
    """Whether each topic and each subject has one place to come from."""
    topics = [own, *(each.topic for each in mirrored)]
    if twice := next((each for each in topics if topics.count(each) > 1), None):
        raise ValueError(f"`mirrored`: topic {twice} is named twice")
    prefixes = sorted(each.subjects for each in mirrored)
    for one, following in pairwise(prefixes):
        if following.startswith(one):
            raise ValueError(
                f"`mirrored`: subjects that begin with {following!r} begin with {one!r}, too: say "
                "prefixes of which none is the beginning of another"
            )
