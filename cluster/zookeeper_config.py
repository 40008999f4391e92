"""What a ZooKeeper can be told in its configuration file: alone, or one of an ensemble.

Each key is explained at its field: `penstock keys` and docs/zookeeper.md have it from there.
"""

from typing import Final

import msgspec

from ground.certificate_expiry import CertificateFiles
from ground.listening import is_loopback
from ground.settings import Bytes, FolderPath, Port
from ground.tls import Tls

DEFAULT_PORT: Final = 2181
_MOST_ID: Final = 255
_LEAST_HEAP: Final = 64 * 1024 * 1024
_HOST_LETTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]_"
)


class EnsembleServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server of an ensemble, as the others reach it."""

    id: int
    """Its number, from 1 to 255; it belongs to its data."""
    host: str
    """Its name or address."""
    quorum_port: Port = 2888
    """Where followers copy from it while it leads."""
    election_port: Port = 3888
    """Where servers elect who leads."""

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
        """As zoo.cfg has it."""
        host = f"[{self.host}]" if ":" in self.host and self.host[0] != "[" else self.host
        return f"server.{self.id}={host}:{self.quorum_port}:{self.election_port}\n"


class ZooKeeperConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ZooKeeper."""

    data_dir: FolderPath
    """Where it keeps its data; belongs to this server, and is locked while it runs."""
    host: str = "127.0.0.1"
    """The address that it listens on for clients."""
    port: Port = DEFAULT_PORT
    """The port that it listens on for clients; with `tls` TLS alone is spoken there."""
    id: int = 0
    """Which of `servers` this one is; 0 where there are none."""
    servers: tuple[EnsembleServer, ...] = ()
    """All servers of the ensemble, this one among them: the same on each. Three go on while one is
    away, five while two are. Without any, this server is alone."""
    tls: Tls | None = None
    """TLS, to clients and between servers. Both sides show a certificate that `ca` has signed; the
    file of `certificate` has its key, too. Exchanged files are taken over without a restart."""
    insecure: bool = False
    """Allows addresses that other machines can reach, although nobody has to authenticate."""
    guarded: bool = False
    """Only who has the secret in the file `secret` of `data_dir` makes nodes at the root: brokers
    then need it as their `zookeeper_secret_file`. Without it, whoever reaches the port can fill its
    memory. For a server that is alone."""
    heap_bytes: Bytes = 512 * 1024 * 1024
    """Memory for its nodes: a megabyte holds about a thousand."""
    jars: FolderPath = ""
    """A directory with ZooKeeper's jars. Without it: those of PySpark, or of Debian's package."""

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
        ids = [each.id for each in self.servers]
        if len(set(ids)) < len(ids):
            raise ValueError("`servers`: two have the same `id`")
        if self.servers and self.id not in ids:
            raise ValueError(f"`id` is {self.id or 'missing'}: it must be that of one of `servers`")
        if self.guarded and self.servers:
            raise ValueError(
                "`guarded` is for a server that is alone: each has a secret of its own"
            )
        if self.id and not self.servers:
            raise ValueError("`servers` is missing: `id` says which of them this one is")

    def _check_locks(self) -> None:
        if self.tls is not None:
            if not (self.tls.ca and self.tls.certificate):
                raise ValueError("`tls` needs `ca` and `certificate`")
            if self.tls.key or self.tls.server_name:
                raise ValueError("`tls` takes `ca` and `certificate`, with its key in that file")
            files = (self.tls.ca, self.tls.certificate)
            if any("\n" in each or "\\" in each for each in files):
                raise ValueError("`tls`: no file may have a line break or \\ in its name")
        others = [each.host for each in self.servers if each.id == self.id]
        open_to_others = [each for each in (self.host, *others) if not is_loopback(each)]
        if open_to_others and self.tls is None and not self.insecure:
            raise ValueError(
                f"`host: {open_to_others[0]}` can be reached from other machines and nobody has to "
                "authenticate: give `tls`, or say `insecure: true` if that is meant"
            )

    @property
    def certificate_files(self) -> CertificateFiles:
        """Whose end somebody should know of in time."""
        tls = self.tls or Tls()
        return CertificateFiles(frozenset({tls.certificate}) - {""}, frozenset({tls.ca}) - {""})
