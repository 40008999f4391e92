"""The audit's configuration file, checked when it is loaded.

Each key is explained at its field; `penstock keys` and docs/audit-configuration.md show the same.
"""

import platform
import re
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Final

import msgspec

from audit.configuration.receivers import Receiver, ReceiverKind
from client.connection.addresses import check_brokers
from client.connection.bootstrap import Bootstrap
from client.connection.security import Security
from ground.http.security import HttpSecurity
from ground.network.listening import is_loopback
from ground.settings import (
    Bytes,
    FilePath,
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
from ground.tls.server import ListenerTls
from schemas.remote.address import RegistryAddress, check_registry

_PORTS: Final = 65536
_MOST_RECEIVERS: Final = 20
_RECEIVER: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
# Headers that clients send anyway, or that log in by another way.
_TAKEN: Final = frozenset(
    {"accept", "authorization", "cookie", "host", "origin", "referer", "user-agent"}
)


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster whose `_audit` topic is read."""

    brokers: tuple[HostAndPort, ...]
    """Some of its brokers."""
    security: Security = Security()
    """[Connection to the brokers](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """Its schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[Connection to the registry](secure-connections.md#a-registry-with-logins): TLS, and a
    login."""

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        check_registry(self.registry, self.registry_security)

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(",".join(self.brokers), self.security)

    @property
    def registry_address(self) -> RegistryAddress:
        return RegistryAddress(self.registry, self.registry_security)


class AlertsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When something is an [alert](how-to/alerts.md), and who receives it."""

    receivers: dict[str, Receiver] = {}
    """Who receives alerts, by a name of yours."""
    page: Url = ""
    """The address of this audit's page, for links in alerts. Default: `host` and `port`."""
    runbook: Url = ""
    """The page that says what to do about each kind of alert; `#KIND` is added. Default: the
    audit's own."""
    webhook: Url = ""
    """Short for a receiver named `webhook` with this URL. With `alerts.webhook_file` it stands in a
    file."""
    gather: Seconds = 10.0
    """The first message about a problem waits this time, so that the hosts of a rack are one."""
    silent: Seconds = 600.0
    """An agent is silent once it was not heard from for this time; the page
    [shows it](audit.md#the-page) earlier. At least two windows, because an idle agent is heard from
    once in each; longer where agents have a `ledger_interval` longer than a window."""
    late: Seconds = 86_400.0
    """A window that still waits this time after its end is late; if its events were reported later,
    as those of old files are, this time after the report."""
    after: Seconds = 120.0
    """A fault, a table that cannot be loaded, or a program that is away is raised once it has
    lasted this time."""
    keep_for: Seconds = 300.0
    """An alert is resolved once it has been over for this time, so that a condition that comes and
    goes is one alert. What Prometheus calls `keep_firing_for`."""
    dead: float = 0.01
    """A topic with a larger share of dead letters among the last hour's lines has an alert; 0: all
    that have any."""
    altered: float = 0.01
    """A topic with a larger share of altered lines among the last hour's has an alert; 0: all that
    have any."""
    certificates: Seconds = 1_209_600.0
    """A certificate that the audit or any program uses, and that expires within this time, has an
    alert."""
    disk: Bytes = 1_073_741_824
    """A disk that the audit or any program writes to, with less free space, has an alert; of a disk
    smaller than ten times that, less than a tenth."""

    def __post_init__(self) -> None:
        check_positive(self, "silent", "late")
        check_not_negative(
            self, "after", "keep_for", "gather", "dead", "altered", "certificates", "disk"
        )
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ValueError("`webhook` must be an http:// or https:// URL")
        if self.webhook and "webhook" in self.receivers:
            raise ValueError("`webhook` is also among the `receivers`: remove one of the two")
        if len(self.receivers) > _MOST_RECEIVERS:
            raise ValueError(f"`receivers`: more than {_MOST_RECEIVERS}")
        for name in self.receivers:
            if not _RECEIVER.fullmatch(name):
                raise ValueError(
                    f"`receivers`: {name[:80]!r} is not a valid name of a-z, 0-9 and -"
                )

    @property
    def all_receivers(self) -> dict[str, Receiver]:
        receiver = Receiver(url=self.webhook, kind=ReceiverKind.WEBHOOK) if self.webhook else None
        return self.receivers | ({"webhook": receiver} if receiver else {})


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host that is expected to ship, whether or not it has ever reported."""

    host: str
    topics: tuple[str, ...] = ()  # none: any topics


class CountingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counting of clusters whose brokers keep no ledger of their own (`--count`)."""

    topics: tuple[str, ...] = ("*",)
    """Patterns of the topics to count; topics that begin with `_` are never counted."""
    interval: Seconds = 10.0
    """The time between two polls of the logs."""

    def __post_init__(self) -> None:
        check_positive(self, "interval")
        if not self.topics or not all(self.topics):
            raise ValueError("`topics` must contain patterns of topics, such as `*`")


class GroupsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Polling of [consumer groups](audit-in-detail.md#consumer-groups)."""

    interval: Seconds = 30.0
    """The time between two polls of the groups' offsets; 0: groups are not polled."""
    series: int = 1_000
    """The number of partitions with metrics of their own in `/metrics`, those furthest behind
    first. The number of those left out is a metric, too."""

    def __post_init__(self) -> None:
        check_not_negative(self, "interval", "series")


class ProxyLogin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reverse proxy that authenticates users and passes their names."""

    header: str
    """The header with the user's name, such as `X-Forwarded-User`."""
    addresses: tuple[str, ...]
    """The proxy's addresses; from any other address the header is ignored."""

    def __post_init__(self) -> None:
        if not _HEADER.fullmatch(self.header):
            raise ValueError("`header` must be the name of a header, such as X-Forwarded-User")
        if self.header.lower() in _TAKEN:
            raise ValueError(f"`header: {self.header}` is a header that any client sends")
        if not self.addresses:
            raise ValueError("`addresses` must contain the proxy's addresses")
        for address in self.addresses:
            try:
                ip_address(address)
            except ValueError:
                raise ValueError(
                    f"`addresses`: {address} is not an IP address such as 10.0.0.5"
                ) from None


class MessageReaders(StrEnum):
    """The users who may see messages."""

    OPERATORS = "operators"
    READERS = "readers"  # all who may read the page


class MessagesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which [messages of topics the page shows](#messages-on-the-page)."""

    topics: tuple[str, ...] = ()
    """Patterns of the topics, such as `clicks*`, which includes the dead letters of `clicks`. By
    default, no messages are shown. Topics that begin with `_` are never shown."""
    shown_to: MessageReaders = MessageReaders.OPERATORS
    """`operators` of `operators_file`, or all `readers` of the page."""
    within: Seconds = 3.0
    """The time limit of a reading; what was read by then is shown."""

    def __post_init__(self) -> None:
        check_positive(self, "within")

    def shows(self, topic: str) -> bool:
        return not topic.startswith("_") and any(
            fnmatchcase(topic, pattern) for pattern in self.topics
        )


class SignaturesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose [signed statements](audit-in-detail.md#signed-statements) are believed."""

    keys_dir: FolderPath = ""
    """A folder with the public keys of the programs on each host: `HOST.pub`, or `HOST/NAME.pub`.
    Statements signed with any other key are rejected. The folder is read again when it changes.
    Default: the first key that signs for a journal is believed."""
    require: bool = False
    """Reject statements that are not signed, as those of releases before 0.2."""


class CommandsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files named in the commands that the audit shows beside faults."""

    loader: FilePath = "/etc/penstock/loader.yaml"
    """`--config` of `penstock load`, on the loader's host, for loaders that do not report their
    own, as those of earlier releases."""
    audit: FilePath = ""
    """`--config` of `penstock audit`, on this host. Default: none if this host has the profile
    /etc/penstock/client.yaml, otherwise the file that this audit was started with."""
    environment: FilePath = ""
    """A file of variables that the shell reads before each command, such as the one written by
    `penstock up`."""
    up: FolderPath = ""
    """The directory of the `penstock up` that runs the programs, which restarts them
    (`penstock up --restart`). Default: the programs are units of systemd."""


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one audit."""

    data_dir: FolderPath
    """A directory of its own, for the [database](#the-database). One audit at a time uses it."""
    clusters: dict[str, Cluster] = {}
    """Several clusters, by the names configured for their agents, brokers and loaders."""
    cluster: str = "local"
    """For one cluster: its name, as configured for its agents, brokers and loaders."""
    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """For one cluster: some of its brokers."""
    security: Security = Security()
    """For one cluster: the [connection to its brokers](secure-connections.md)."""
    registry: Url = "http://127.0.0.1:8081"
    """For one cluster: its schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """For one cluster: the [connection to its
    registry](secure-connections.md#a-registry-with-logins)."""
    host: str = "127.0.0.1"
    """The address of page, API and metrics."""
    port: Port = 8090
    """The port of page, API and metrics; 0: any free port."""
    tls: ListenerTls | None = None
    """[HTTPS](#tls-and-logins), and only HTTPS, on that port."""
    users_file: FilePath = ""
    """[Users who may log in](#tls-and-logins) with a password."""
    tokens_file: FilePath = ""
    """Programs that may log in with a token."""
    operators_file: FilePath = ""
    """[Users who may accept faults and retire hosts](#operators) on the page and over HTTP: their
    names, one a line. Without this file there are no operators."""
    proxy: ProxyLogin | None = None
    """A reverse proxy that is trusted to authenticate users."""
    host_names: tuple[str, ...] = ()
    """The names, or addresses, of this audit. Requests with any other in the header `Host` are
    rejected. Default: all are accepted."""
    insecure: bool = False
    """Must be true if other machines can reach `host` and no login is required, or passwords are
    sent without `tls`."""
    inventory: FilePath = ""
    """A file with [the hosts that are expected to ship](#expected-agents). It is read again when
    it changes."""
    window: WholeSeconds = 60
    """The window of agents, brokers and loaders; it divides an hour."""
    retention: Seconds = 7 * 86_400.0
    """Windows, files and loads older than this are forgotten."""
    expected: Seconds = 30 * 86_400.0
    """An agent that was not heard for this time is no longer waited for."""
    grace: Seconds = 60.0
    """How long a statement may be in transit before its absence is a fault."""
    poll: Seconds = 0.5
    """The time between two polls of a ledger."""
    alerts: AlertsConfig = AlertsConfig()
    groups: GroupsConfig = GroupsConfig()
    count: CountingConfig = CountingConfig()
    messages: MessagesConfig = MessagesConfig()
    signatures: SignaturesConfig = SignaturesConfig()
    commands: CommandsConfig = CommandsConfig()

    def __post_init__(self) -> None:
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not self.clusters:
            check_brokers(self.brokers)
            check_registry(self.registry, self.registry_security)
        if not 0 <= self.port < _PORTS:
            raise ValueError("`port` must be between 0 and 65535")
        self._check_exposed()
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        check_positive(self, "retention", "expected", "poll")
        check_not_negative(self, "grace")
        if self.operators_file and not self.has_logins:
            raise ValueError(
                "`operators_file` requires logins: give `users_file`, `tokens_file` or `proxy`"
            )
        is_for_operators = self.messages.shown_to is MessageReaders.OPERATORS
        if self.messages.topics and is_for_operators and not self.operators_file:
            raise ValueError(
                "`messages` are shown to operators: give `operators_file`, or set "
                "`messages.shown_to: readers`"
            )
        if self.alerts.silent < 2 * self.window:
            raise ValueError(
                "`alerts.silent` must be at least two windows: an idle agent reports once a window"
            )

    def _check_exposed(self) -> None:
        if self.insecure or is_loopback(self.host):
            return
        prefix = f"`host: {self.host}` can be reached from other machines and"
        if not self.is_locked:
            raise ValueError(
                f"{prefix} no login is required: give `users_file`, `tokens_file` or `proxy`, or "
                "set `insecure: true` if that is intended"
            )
        if self.tls is None and (self.users_file or self.tokens_file):
            raise ValueError(
                f"{prefix} passwords and tokens would be sent unencrypted: give `tls`, or set "
                "`insecure: true` if that is intended"
            )

    @property
    def is_locked(self) -> bool:
        """Whether users have to authenticate, by certificate or login."""
        has_client_certificates = self.tls is not None and self.tls.requires_certificates
        return has_client_certificates or self.has_logins

    @property
    def has_logins(self) -> bool:
        """Whether each request needs a login."""
        return bool(self.users_file or self.tokens_file or self.proxy)

    @property
    def page_url(self) -> str:
        """The page's address, for links."""
        if self.alerts.page:
            return self.alerts.page.rstrip("/")
        host = (self.host_names or (self.host,))[0]
        host = platform.node() if host in {"0.0.0.0", "::"} else host  # noqa: S104
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def runbook_url(self) -> str:
        return self.alerts.runbook or f"{self.page_url}/runbook"

    @property
    def certificate_files(self) -> CertificateFiles:
        """The certificates of all clusters, and the audit's own. The audit warns before they
        expire."""
        files = CertificateFiles() if self.tls is None else self.tls.certificate_files
        for cluster in self.all_clusters.values():
            files |= cluster.security.certificate_files
        return files

    @property
    def all_clusters(self) -> dict[str, Cluster]:
        """All clusters, by name."""
        if self.clusters:
            return self.clusters
        return {
            self.cluster: Cluster(
                brokers=self.brokers,
                security=self.security,
                registry=self.registry,
                registry_security=self.registry_security,
            )
        }
