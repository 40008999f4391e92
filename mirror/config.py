"""What a mirror can be told in its configuration file. Checked when it is loaded, once.

Each key is explained at its field: `penstock keys` and docs/mirror.md have it from there.
"""

import re
from typing import Final

import msgspec

from client.addresses import check_brokers
from client.bootstrap import Bootstrap
from client.security import Security
from cluster.security import ZooKeeperSecurity
from ground.certificate_expiry import CertificateFiles
from ground.http_security import HttpSecurity
from ground.page_locks import PageLocks, check_pages
from ground.settings import (
    Bytes,
    FolderPath,
    HostAndPort,
    Port,
    Seconds,
    Url,
    WholeSeconds,
    check_not_negative,
    check_positive,
)
from schemas.remote.address import RegistryAddress, check_registry

_PORTS: Final = 65536
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LEAST_MEMORY: Final = 4 * 1024 * 1024


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster that is copied from."""

    cluster: str
    """The cluster's name, as its agents, brokers and loaders are told it."""
    brokers: tuple[HostAndPort, ...]
    """Some of its brokers."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""

    def __post_init__(self) -> None:
        _check_side(self.cluster, self.brokers)

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster that is copied to."""

    cluster: str
    """The cluster's name, as its agents, brokers and loaders are told it."""
    brokers: tuple[HostAndPort, ...]
    """Some of its brokers."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""
    zookeeper: str = ""
    """Its ZooKeeper, `host:2181,host:2181/penstock`, by which
    [workers share partitions](#several-workers); without it there is one worker."""
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """How ZooKeeper is connected to: TLS, and a login."""
    zookeeper_secret: str = ""
    """The brokers' `zookeeper_secret`, if they have one. Better in a file, with
    `zookeeper_secret_file`."""
    registry: Url = ""
    """Its schema registry, `http://host:8081`, several separated by commas: with it, what is copied
    is told to [the ledger](#the-ledger), `_audit` of this cluster."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the registry is asked](secure-connections.md#a-registry-behind-locks): TLS, and a
    login."""

    def __post_init__(self) -> None:
        _check_side(self.cluster, self.brokers)
        if self.registry:
            check_registry(self.registry, self.registry_security)

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)


Side = Source | Target


def _check_side(cluster: str, brokers: tuple[str, ...]) -> None:
    check_brokers(brokers)
    if not _NAME.fullmatch(cluster):
        raise ValueError("`cluster` must be 1 to 249 letters, digits, '.', '_' and '-'")


class GroupsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Offsets of consumer groups."""

    sync: bool = True
    """Whether offsets that groups have committed at the source are committed at the target."""
    interval: Seconds = 60.0
    """From one look to the next."""

    def __post_init__(self) -> None:
        check_positive(self, "interval")


class CompareConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How both clusters are [compared in the background](#what-is-compared)."""

    rate: Bytes = 4 * 1024 * 1024
    """Bytes a second that a worker reads for it, of both sides together; 0: nothing is compared."""
    interval: Seconds = 3600.0
    """From the beginning of one pass over all partitions to the next, at least."""

    def __post_init__(self) -> None:
        check_not_negative(self, "rate")
        check_positive(self, "interval")


class MirrorLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a mirror may use."""

    memory_bytes: Bytes = 48 * 1024 * 1024
    """Of batches that are under way."""
    series: int = 2_000
    """Partitions that `/metrics` shows one by one; those that lag most come first."""

    def __post_init__(self) -> None:
        if self.memory_bytes < _LEAST_MEMORY:
            raise ValueError(f"`memory_bytes` must be at least {_LEAST_MEMORY}")
        check_not_negative(self, "series")


class MirrorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mirror."""

    name: str
    """The mirror's name; its workers are those with the same name."""
    source: Source
    target: Target
    data_dir: FolderPath
    """A directory of this worker's own. One process at a time has it."""
    topics: tuple[str, ...] = ("*",)
    """Patterns of the topics that are copied. Topics that begin with `_` never are."""
    exclude: tuple[str, ...] = ()
    """Patterns of topics that are not copied, of those above."""
    prefix: str | None = None
    """What names begin with at the target. Without it: the source's name and a dot, as in
    `dc1.page_views`."""
    strip: str = ""
    """What names begin with at the source and not at the target: for
    [the way back](#a-planned-switch-and-back)."""
    acls: bool = False
    """Whether [who may read a topic](#rights-of-others) may read its copy."""
    schemas: bool = False
    """Whether `_schemas` is copied too, as `dc1._schemas`."""
    keep_configs: tuple[str, ...] = ()
    """Configs of topics that are not followed: what the target has stays. Always among them:
    `min.insync.replicas`, `unclean.leader.election.enable`, throttles."""
    interval: Seconds = 10.0
    """From one look at topics, partitions and configs to the next."""
    bandwidth: Bytes = 0
    """Bytes a second that a worker copies at most; 0: as many as there are."""
    groups: GroupsConfig = GroupsConfig()
    ledger_interval: Seconds = 10.0
    """From one entry of [the ledger](#the-ledger) to the next."""
    window: WholeSeconds = 60
    """The length of the ledger's windows: divides an hour, and is the same as the agents'."""
    compare: CompareConfig = CompareConfig()
    http_host: str = "127.0.0.1"
    """The address of `/metrics`, `/healthz`, `/readyz` and `/api/v1/standing`."""
    http_port: Port = 9466
    """Their port; 0: any that is free."""
    http: PageLocks = PageLocks()
    """Who sees `/metrics` and `/api/v1/standing`: TLS, certificates, tokens."""
    insecure: bool = False
    """Allows an `http_host` that other machines can reach, although nobody has to authenticate."""
    limits: MirrorLimits = MirrorLimits()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("`name` must be 1 to 249 letters, digits, '.', '_' and '-'")
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not 0 <= self.http_port < _PORTS:
            raise ValueError("`http_port` must be between 0 and 65535")
        if not self.topics or not all(self.topics):
            raise ValueError('`topics` must name patterns, such as "*"')
        if self.prefix and not _NAME.fullmatch(self.prefix):
            raise ValueError("`prefix` may have letters, digits, '.', '_' and '-'")
        if self.source.cluster == self.target.cluster:
            raise ValueError("`source.cluster` and `target.cluster` must be two clusters")
        check_positive(self, "interval", "ledger_interval")
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        check_not_negative(self, "bandwidth")
        check_pages(self.http_host, self.http, insecure=self.insecure)

    @property
    def names_begin_with(self) -> str:
        return f"{self.source.cluster}." if self.prefix is None else self.prefix

    @property
    def certificate_files(self) -> CertificateFiles:
        """Whose end somebody should know of in time."""
        sides = self.source.security.certificate_files | self.target.security.certificate_files
        return sides | self.http.certificate_files
