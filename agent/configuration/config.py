"""The configuration of an agent, validated when it is loaded.

The inputs are in inputs.py. The text below each field documents its key: `penstock keys` and
docs/agent-configuration.md are generated from it.
"""

import os
import socket
from enum import StrEnum

import msgspec

from agent.configuration.inputs import Input, check_distinct
from agent.configuration.system_journal import SPOOLS_FOLDER
from agent.open_files.opening import FollowLinks, SecretFiles, files_named
from client.connection.addresses import check_brokers
from client.connection.bootstrap import Bootstrap
from client.connection.security import Security
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


class BatchCompression(StrEnum):
    """The compression codec of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Proof(StrEnum):
    """Whether reports on `_audit` have a SHA-256 of what was shipped."""

    ON = "on"
    OFF = "off"


class Batches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How lines are packed into batches."""

    bytes: Bytes = 1024 * 1024
    """The size at which a batch is closed, before compression: from 1024 to 67108864."""
    linger: Seconds = 0.1
    """The [longest time](agent-in-detail.md#order-and-partitions) that a line waits for others:
    from 0 to 60."""
    compression: BatchCompression = BatchCompression.ZSTD
    """If a topic refuses it, batches are compressed with gzip, or not at all."""

    def __post_init__(self) -> None:
        if not 1024 <= self.bytes <= 64 * 1024 * 1024:
            raise ValueError("`bytes` must be between 1024 and 67108864")
        if not 0 <= self.linger <= 60:
            raise ValueError("`linger` must be between 0 and 60")


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the host's resources that an agent may use."""

    in_flight_bytes: Bytes = 16 * 1024 * 1024
    """Batches that are not acknowledged yet; at this size, the agent stops reading."""
    open_files: int = 1_024
    """Open followed files; beyond that, idle ones are closed and opened again when they grow."""
    cpu: float = 0.0
    """Cores that the process may use, such as 0.5; 0: no limit. Kept by pausing."""
    memory_bytes: Bytes = 0
    """Memory that the process may use; 0: no limit. Kept by reducing what is in flight: see
    [what can fail](agent-failures.md#what-can-fail-and-what-to-do)."""
    journal_bytes: Bytes = 64 * 1024 * 1024
    """The size at which the journal begins a new file."""

    def __post_init__(self) -> None:
        check_positive(self, "in_flight_bytes", "open_files", "journal_bytes")
        check_not_negative(self, "cpu", "memory_bytes")


class HoldDeleted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on holding deleted files open until they are read."""

    bytes: Bytes = 1024 * 1024 * 1024
    """The total size of deleted files held open."""
    seconds: Seconds = 3600.0
    """How long a deleted file is held open."""

    def __post_init__(self) -> None:
        check_not_negative(self, "bytes", "seconds")


class Times(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The accepted range of event times. A time outside it is set to the nearer bound, and
    counted."""

    oldest: Seconds = 400 * 86_400.0
    """An older event time is set to this bound, and counted."""
    newest: Seconds = 3600.0
    """An event time further in the future is set to this bound, and counted."""

    def __post_init__(self) -> None:
        check_positive(self, "oldest", "newest")


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of an agent."""

    inputs: tuple[Input, ...] = ()
    """The files and journals to follow."""
    inputs_dir: FolderPath = ""
    """A folder with [a file for each application](#a-file-for-each-application). A relative path
    starts at the folder of this file."""
    cluster: str = "local"
    """The cluster's name in the ledger."""
    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Some brokers of the cluster."""
    security: Security = Security()
    """[How to connect to the brokers](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """The schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How to connect to the registry](secure-connections.md#a-registry-with-logins): TLS, and a
    login."""
    auto_register: bool = False
    """Whether the agent registers the `schema` of its inputs."""
    data_dir: FolderPath = "penstock-data/agent"
    """Journal and cached schemas; belongs to this agent on this host, and is locked while it
    runs."""
    host: str = ""
    """`header.host` of its events. Without it: the machine's name."""
    http_host: str = "127.0.0.1"
    """The address of `/metrics`, `/healthz`, `/readyz` and `/status`."""
    http_port: Port = 9464
    """The port of `/metrics`, `/healthz`, `/readyz` and `/status`; 0: any that is free."""
    http: PageLocks = PageLocks()
    """[Who sees](#access-to-the-pages) `/metrics` and `/status`: TLS, certificates, tokens."""
    insecure: bool = False
    """Allows an `http_host` that other machines can reach without authentication. Logged at each
    start, and shown in `/metrics`."""
    follow_links: FollowLinks = FollowLinks.SAME_OWNER
    """[Which symbolic links](#links) are followed. `same_owner`: those that root or the agent's own
    user created, and those of other users to their own or world-readable files. `always`: all. The
    agent's secrets and its `data_dir` are never read."""
    scan_interval: Seconds = 5.0
    """The time between scans of all files and of `inputs_dir`, in addition to the kernel's events.
    """
    batches: Batches = Batches()
    limits: AgentLimits = AgentLimits()
    hold_deleted: HoldDeleted = HoldDeleted()
    times: Times = Times()
    journal_sync: bool = False
    """Flushes the journal to disk before a batch is sent: exactly once even after a power loss, but
    slower."""
    ledger: bool = True
    """Whether the agent reports what it shipped on `_audit`."""
    proof: Proof = Proof.ON
    """`on`: these reports have a [SHA-256 of what was shipped](ledger-entries.md#proofs), by which
    the loader finds lines that a broker has changed so that their CRCs stayed the same. `off`: they
    have CRCs only, which takes less time."""
    ledger_interval: Seconds = 10.0
    """The time between entries on `_audit`."""
    window: WholeSeconds = 60
    """The window of event time in the ledger and for closing batches; must divide an hour, and be
    the same on all agents of a cluster."""
    drain: Seconds = 20.0
    """How long a stop waits for batches in flight."""

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        check_registry(self.registry, self.registry_security)
        if not self.inputs and not self.inputs_dir:
            raise ValueError("`inputs` or `inputs_dir` is required")
        check_distinct(self.inputs)
        if not 0 <= self.http_port < 65536:
            raise ValueError("`http_port` must be between 0 and 65535")
        check_pages(self.http_host, self.http, insecure=self.insecure)
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        check_positive(self, "scan_interval", "ledger_interval")
        check_not_negative(self, "drain")

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def certificate_files(self) -> CertificateFiles:
        """The certificates whose expiry is monitored."""
        return self.security.certificate_files | self.http.certificate_files

    @property
    def secret_files(self) -> SecretFiles:
        """The files that are never shipped, whatever pattern or link leads to them."""
        files = (*files_named(self.security), *files_named(self.registry_security))
        data_dir = os.path.realpath(self.data_dir)
        return SecretFiles((*files, *files_named(self.http)), data_dir, SPOOLS_FOLDER)

    @property
    def is_open_to_anybody(self) -> bool:
        """Whether the agent's pages can be seen without a login or without TLS, which only
        `insecure` allows."""
        return self.http.are_open(self.http_host)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)

    @property
    def host_name(self) -> str:
        return self.host or socket.gethostname()
