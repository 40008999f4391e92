"""The configuration file of a ZooKeeper: a single server, or a member of an ensemble.

The docstring of a key's field is its text in `penstock keys` and docs/zookeeper.md.
"""

from typing import Final

import msgspec

from ground.network.listening import is_loopback
from ground.settings import Bytes, FolderPath, Port
from ground.tls.certificate_expiry import CertificateFiles
from ground.tls.client import Tls

DEFAULT_PORT: Final = 2181
_MOST_ID: Final = 255
_LEAST_HEAP: Final = 64 * 1024 * 1024
_HOST_LETTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]_"
)


class EnsembleServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server of an ensemble, with its address for the other servers."""

    id: int
    """Its number, from 1 to 255, which belongs to its data."""
    host: str
    """Its name or address."""
    quorum_port: Port = 2888
    """Port for followers while it is the leader."""
    election_port: Port = 3888
    """Port for leader elections."""

    def __post_init__(self) -> None:
        if not 1 <= self.id <= _MOST_ID:
            raise ValueError(f"`id` must be between 1 and {_MOST_ID}")
        if not self.host or not _HOST_LETTERS.issuperset(self.host) or len(self.host) > 255:
            raise ValueError("`host` must be a name or an address")
        for name in ("quorum_port", "election_port"):
            if not 0 < getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 1 and 65535")
        if self.quorum_port == self.election_port:
            raise ValueError("`quorum_port` and `election_port` must differ")

    @property
    def line(self) -> str:
        """The server's line in zoo.cfg."""
        host = f"[{self.host}]" if ":" in self.host and self.host[0] != "[" else self.host
        return f"server.{self.id}={host}:{self.quorum_port}:{self.election_port}\n"


class ZooKeeperConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one ZooKeeper server."""

    data_dir: FolderPath
    """Directory for its data, for this server alone; locked while it runs."""
    host: str = "127.0.0.1"
    """Listen address for clients."""
    port: Port = DEFAULT_PORT
    """Listen port for clients; with `tls`, TLS only."""
    id: int = 0
    """The `id` of this server among `servers`; 0 without any."""
    servers: tuple[EnsembleServer, ...] = ()
    """All servers of the ensemble, including this one; the same list on each. Three tolerate the
    loss of one, five of two. Without any, this is a single server."""
    tls: Tls | None = None
    """TLS, to clients and between servers. Both sides present certificates signed by `ca`; the file
    of `certificate` also contains its key. Replaced files take effect without a restart."""
    insecure: bool = False
    """Allows an address that other machines can reach without authentication."""
    guarded: bool = False
    """Only owners of the secret in the file `secret` of `data_dir` can create nodes at the root:
    brokers then need it as their `zookeeper_secret_file`. Without it, everyone who reaches the port
    can exhaust its memory. For a single server only."""
    heap_bytes: Bytes = 512 * 1024 * 1024
    """Memory for its nodes: about a thousand per megabyte."""
    jars: FolderPath = ""
    """Directory with ZooKeeper's jars. Default: PySpark's, or those of Debian's package."""

    def __post_init__(self) -> None:
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not 0 < self.port < 65536:
            raise ValueError("`port` must be between 1 and 65535")
        if not self.host or not _HOST_LETTERS.issuperset(self.host):
            raise ValueError("`host` must be an address")
        if self.heap_bytes < _LEAST_HEAP:
            raise ValueError(f"`heap_bytes` must be at least {_LEAST_HEAP}")
        self._check_servers()
        self._check_locks()

    def _check_servers(self) -> None:
        ids = [server.id for server in self.servers]
        if len(set(ids)) < len(ids):
            raise ValueError("`servers`: duplicate `id`")
        if self.servers and self.id not in ids:
            raise ValueError(
                f"`id` is {self.id or 'missing'}: it must be the `id` of one of `servers`"
            )
        if self.guarded and self.servers:
            raise ValueError("`guarded` is for a single server: each server has its own secret")
        if self.id and not self.servers:
            raise ValueError("`servers` is missing: `id` selects one of them")

    def _check_locks(self) -> None:
        if self.tls is not None:
            if not (self.tls.ca and self.tls.certificate):
                raise ValueError("`tls` needs `ca` and `certificate`")
            if self.tls.key or self.tls.server_name:
                raise ValueError(
                    "`tls` takes only `ca` and `certificate`, with the key in the same file"
                )
            files = (self.tls.ca, self.tls.certificate)
            if any("\n" in name or "\\" in name for name in files):
                raise ValueError("`tls`: file names must not contain a line break or \\")
        own_hosts = [server.host for server in self.servers if server.id == self.id]
        public_hosts = [host for host in (self.host, *own_hosts) if not is_loopback(host)]
        if public_hosts and self.tls is None and not self.insecure:
            raise ValueError(
                f"`host: {public_hosts[0]}` can be reached from other machines without "
                "authentication: configure `tls`, or set `insecure: true` if that is intended"
            )

    @property
    def certificate_files(self) -> CertificateFiles:
        """Files to watch for expiry."""
        tls = self.tls or Tls()
        return CertificateFiles(frozenset({tls.certificate}) - {""}, frozenset({tls.ca}) - {""})
