"""The mirror's configuration file, validated once when it is loaded.

The docstring of a key's field is its text in `penstock keys` and docs/mirror-configuration.md.
"""

import re
from typing import Final

import msgspec

from client.connection.addresses import check_brokers
from client.connection.bootstrap import Bootstrap
from client.connection.security import Security
from cluster.session.security import ZooKeeperSecurity
from ground.http.page_locks import PageLocks, check_pages
from ground.http.security import HttpSecurity
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
from ground.tls.certificate_expiry import CertificateFiles
from schemas.remote.address import RegistryAddress, check_registry

_PORTS: Final = 65536
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LEAST_MEMORY: Final = 4 * 1024 * 1024


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster to copy from."""

    cluster: str
    """The cluster's name, as configured for its agents, brokers and loaders."""
    brokers: tuple[HostAndPort, ...]
    """Bootstrap brokers."""
    security: Security = Security()
    """[Connections to brokers](secure-connections.md): TLS and login."""

    def __post_init__(self) -> None:
        _check_side(self.cluster, self.brokers)

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster to copy to."""

    cluster: str
    """The cluster's name, as configured for its agents, brokers and loaders."""
    brokers: tuple[HostAndPort, ...]
    """Bootstrap brokers."""
    security: Security = Security()
    """[Connections to brokers](secure-connections.md): TLS and login."""
    zookeeper: str = ""
    """Its ZooKeeper, `host:2181,host:2181/penstock`, through which
    [workers share partitions](mirror.md#several-workers). Without it there is one worker."""
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """Connections to ZooKeeper: TLS and login."""
    zookeeper_secret: str = ""
    """The brokers' `zookeeper_secret`, if they have one. Better in a file, with
    `zookeeper_secret_file`."""
    registry: Url = ""
    """Its schema registry, `http://host:8081`, several separated by commas. With it, the mirror
    reports what it copies to [the ledger](mirror-in-detail.md#the-ledger), `_audit` of this
    cluster."""
    registry_security: HttpSecurity = HttpSecurity()
    """[Requests to the registry](secure-connections.md#a-registry-with-logins): TLS and login."""

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
    """Synchronization of consumer groups' offsets."""

    sync: bool = True
    """Commits offsets of groups of the source at the target too."""
    interval: Seconds = 60.0
    """Interval between synchronizations."""

    def __post_init__(self) -> None:
        check_positive(self, "interval")


class CompareConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[Background comparison](mirror-in-detail.md#what-is-compared) of both clusters."""

    rate: Bytes = 4 * 1024 * 1024
    """Bytes per second that a worker reads of both sides together; 0: nothing is compared."""
    interval: Seconds = 3600.0
    """Minimum interval between the starts of two passes over all partitions."""

    def __post_init__(self) -> None:
        check_not_negative(self, "rate")
        check_positive(self, "interval")


class MirrorLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on a mirror's memory and metrics."""

    memory_bytes: Bytes = 48 * 1024 * 1024
    """Memory for batches in transit."""
    series: int = 2_000
    """Partitions with metrics of their own in `/metrics`, those with the largest lag first."""

    def __post_init__(self) -> None:
        if self.memory_bytes < _LEAST_MEMORY:
            raise ValueError(f"`memory_bytes` must be at least {_LEAST_MEMORY}")
        check_not_negative(self, "series")


class MirrorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mirror."""

    name: str
    """The mirror's name; workers with the same name share its partitions."""
    source: Source
    target: Target
    data_dir: FolderPath
    """A directory for this worker alone."""
    topics: tuple[str, ...] = ("*",)
    """Patterns of topics to copy. Topics that begin with `_` are never copied."""
    exclude: tuple[str, ...] = ()
    """Patterns of topics not to copy, among those of `topics`."""
    prefix: str | None = None
    """Prefix of copies' names. Default: the source's name and a dot, as in `dc1.page_views`."""
    strip: str = ""
    """Prefix of source topics that is removed from the copies' names: for
    [the way back](mirror.md#a-planned-switch-and-back)."""
    acls: bool = False
    """Copies [read permissions](mirror-in-detail.md#copying-acls) on topics to their copies."""
    schemas: bool = False
    """Copies `_schemas` too, as `dc1._schemas`."""
    keep_configs: tuple[str, ...] = ()
    """Topic configs that are not copied. Always among them: `min.insync.replicas`,
    `unclean.leader.election.enable`, throttles."""
    interval: Seconds = 10.0
    """Interval between scans of topics, partitions and configs."""
    bandwidth: Bytes = 0
    """Limit on the bytes per second that a worker copies; 0: unlimited."""
    groups: GroupsConfig = GroupsConfig()
    ledger_interval: Seconds = 10.0
    """Interval between entries of [the ledger](mirror-in-detail.md#the-ledger)."""
    window: WholeSeconds = 60
    """Length of the ledger's windows. Must divide an hour, and be the same as the agents'."""
    compare: CompareConfig = CompareConfig()
    http_host: str = "127.0.0.1"
    """Listen address of `/metrics`, `/healthz`, `/readyz` and `/api/v1/standing`."""
    http_port: Port = 9466
    """Their port; 0: any free port."""
    http: PageLocks = PageLocks()
    """Access to `/metrics` and `/api/v1/standing`: TLS, certificates, tokens."""
    insecure: bool = False
    """Allows an `http_host` that other machines can reach without authentication."""
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
            raise ValueError("`source.cluster` and `target.cluster` must be different")
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
        """Files to watch for expiry."""
        sides = self.source.security.certificate_files | self.target.security.certificate_files
        return sides | self.http.certificate_files
