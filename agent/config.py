"""What an agent can be told in its configuration files. Checked when they are loaded, once.

Its inputs are in config_inputs.py. Each key is explained at its field: `penstock keys` and
docs/agent-configuration.md have it from there.
"""

import os
import socket
from enum import StrEnum

import msgspec

from agent.config_inputs import Input, check_distinct
from agent.recognition.opening import FollowLinks, SecretFiles, files_named
from client.addresses import check_brokers
from client.bootstrap import Bootstrap
from client.security import Security
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


class BatchCompression(StrEnum):
    """How batches are packed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Batches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How lines are packed."""

    bytes: Bytes = 1024 * 1024
    """A batch is closed when it has so much, before compression: from 1024 to 67108864."""
    linger: Seconds = 0.1
    """How long a line waits for others [at most](agent-in-detail.md#order-and-partitions): from 0
    to 60."""
    compression: BatchCompression = BatchCompression.ZSTD
    """Where a topic refuses it, batches are packed as gzip, or not at all."""

    def __post_init__(self) -> None:
        if not 1024 <= self.bytes <= 64 * 1024 * 1024:
            raise ValueError("`bytes` must be between 1024 and 67108864")
        if not 0 <= self.linger <= 60:
            raise ValueError("`linger` must be between 0 and 60")


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent may use of its host."""

    in_flight_bytes: Bytes = 16 * 1024 * 1024
    """Batches that are not acknowledged yet; beyond so much, nothing is read."""
    open_files: int = 1_024
    """Handles of followed files; idle ones beyond are closed and opened again when they grow."""
    cpu: float = 0.0
    """Cores that the process may use, such as 0.5; 0: no limit. Kept by pausing."""
    memory_bytes: Bytes = 0
    """Memory that the process may use; 0: no limit. Kept by having less in flight: see
    [what can fail](agent-failures.md#what-can-fail-and-what-to-do)."""
    journal_bytes: Bytes = 64 * 1024 * 1024
    """The size after which the journal begins a new file."""

    def __post_init__(self) -> None:
        check_positive(self, "in_flight_bytes", "open_files", "journal_bytes")
        check_not_negative(self, "cpu", "memory_bytes")


class HoldDeleted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of deleted files is held open for what was not read yet."""

    bytes: Bytes = 1024 * 1024 * 1024
    """Of all deleted files together, so much is held open."""
    seconds: Seconds = 3600.0
    """For how long a deleted file is held open."""

    def __post_init__(self) -> None:
        check_not_negative(self, "bytes", "seconds")


class Times(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which times are believed, from now. What lies outside is put on the bound, and counted."""

    oldest: Seconds = 400 * 86_400.0
    """An event that says it is older is put on that bound, and counted."""
    newest: Seconds = 3600.0
    """An event that says it is further in the future is put on that bound, and counted."""

    def __post_init__(self) -> None:
        check_positive(self, "oldest", "newest")


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent."""

    inputs: tuple[Input, ...] = ()
    """What is followed."""
    inputs_dir: FolderPath = ""
    """A folder with [a file for each application](#a-file-for-each-application). Beside this file,
    if it is not absolute."""
    cluster: str = "local"
    """The cluster's name; stands in the ledger."""
    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Some brokers of the cluster."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """The schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the registry is asked](secure-connections.md#a-registry-behind-locks): TLS, and a
    login."""
    auto_register: bool = False
    """Whether the `schema` of an input is registered by the agent."""
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
    """Allows an `http_host` that other machines can reach, although nobody has to authenticate.
    Said at each start, and in `/metrics`."""
    follow_links: FollowLinks = FollowLinks.SAME_OWNER
    """[Which symbolic links](#links) are followed. `same_owner`: those that root or the agent's own
    user made, and those of others to their own files and to files that everybody may read.
    `always`: all. The agent's secrets and its `data_dir` are never read."""
    scan_interval: Seconds = 5.0
    """Between looks at all files, whatever the kernel tells; also at `inputs_dir`."""
    batches: Batches = Batches()
    limits: AgentLimits = AgentLimits()
    hold_deleted: HoldDeleted = HoldDeleted()
    times: Times = Times()
    journal_sync: bool = False
    """Flushes the journal to disk before a batch is sent: exact through a power loss too, and
    slower."""
    ledger: bool = True
    """Whether what was shipped is told on `_audit`."""
    ledger_interval: Seconds = 10.0
    """Between entries on `_audit`."""
    window: WholeSeconds = 60
    """Of event time, in the ledger and for closing batches; divides an hour, and is the same on all
    agents of a cluster."""
    drain: Seconds = 20.0
    """How long a stop waits for what is on its way."""

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        check_registry(self.registry, self.registry_security)
        if not self.inputs and not self.inputs_dir:
            raise ValueError("give `inputs`, or `inputs_dir` with a file for each application")
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
        """Whose end somebody should know of in time."""
        return self.security.certificate_files | self.http.certificate_files

    @property
    def secret_files(self) -> SecretFiles:
        """What is never shipped, whatever leads there."""
        files = (*files_named(self.security), *files_named(self.registry_security))
        return SecretFiles((*files, *files_named(self.http)), os.path.realpath(self.data_dir))

    @property
    def is_open_to_anybody(self) -> bool:
        """Whether others see its pages without a login, or in the clear: only `insecure` allows
        that."""
        return self.http.are_open(self.http_host)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)

    @property
    def host_name(self) -> str:
        return self.host or socket.gethostname()
