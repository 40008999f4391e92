"""What an audit can be told in its configuration file. Checked when it is loaded, once.

Each key is explained at its field: `penstock keys` and
docs/audit-configuration.md have it from there.
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
# What clients send of themselves, or another way to log in.
_TAKEN: Final = frozenset(
    {"accept", "authorization", "cookie", "host", "origin", "referer", "user-agent"}
)


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster whose `_audit` is read."""

    brokers: tuple[HostAndPort, ...]
    """Some of its brokers."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """Its schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the registry is asked](secure-connections.md#a-registry-with-logins): TLS, and a
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
    """A window that still waits this time after its end is late."""
    after: Seconds = 120.0
    """A fault, a table that cannot be loaded, or a program that is away is raised once it has
    lasted this time."""
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
        check_not_negative(self, "after", "gather", "dead", "altered", "certificates", "disk")
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ValueError("`webhook` must be an http:// or https:// URL")
        if self.webhook and "webhook" in self.receivers:
            raise ValueError("`webhook` is a receiver, too: give it once")
        if len(self.receivers) > _MOST_RECEIVERS:
            raise ValueError(f"at most {_MOST_RECEIVERS} `receivers`")
        for name in self.receivers:
            if not _RECEIVER.fullmatch(name):
                raise ValueError(
                    f"`receivers`: {name[:80]!r} is not a name: lower-case letters, digits and -"
                )

    @property
    def all_receivers(self) -> dict[str, Receiver]:
        alone = Receiver(url=self.webhook, kind=ReceiverKind.WEBHOOK) if self.webhook else None
        return self.receivers | ({"webhook": alone} if alone else {})


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host that is expected to ship, whether it was ever heard or not."""

    host: str
    topics: tuple[str, ...] = ()  # none: to anything


class CountingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is counted of clusters whose brokers keep no ledger of their own (`--count`)."""

    topics: tuple[str, ...] = ("*",)
    """Patterns of the topics that are counted; topics that begin with `_` never are."""
    interval: Seconds = 10.0
    """From one look at the logs to the next."""

    def __post_init__(self) -> None:
        check_positive(self, "interval")
        if not self.topics or not all(self.topics):
            raise ValueError("`topics` must name patterns of topics, such as `*`")


class GroupsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked about [consumer groups](audit-in-detail.md#consumer-groups)."""

    interval: Seconds = 30.0
    """From one look at the groups' offsets to the next; 0: they are not looked at."""
    series: int = 1_000
    """So many partitions have figures of their own in `/metrics`, those first whose groups are
    furthest behind. How many were left out is a figure, too."""

    def __post_init__(self) -> None:
        check_not_negative(self, "interval", "series")


class ProxyLogin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reverse proxy that has had people log in, and says who they are."""

    header: str
    """The header in which it says so, such as `X-Forwarded-User`."""
    addresses: tuple[str, ...]
    """The proxy's addresses: from any other the header counts for nothing."""

    def __post_init__(self) -> None:
        if not _HEADER.fullmatch(self.header):
            raise ValueError("`header` must be the name of a header, such as X-Forwarded-User")
        if self.header.lower() in _TAKEN:
            raise ValueError(f"`header: {self.header}` is one that anybody's client sends")
        if not self.addresses:
            raise ValueError("`addresses` must name those of the proxy")
        for each in self.addresses:
            try:
                ip_address(each)
            except ValueError:
                raise ValueError(f"`addresses`: {each} is no address such as 10.0.0.5") from None


class MessageReaders(StrEnum):
    """Who is shown messages."""

    OPERATORS = "operators"
    READERS = "readers"  # everybody who may read the page


class MessagesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which [messages of topics the page shows](#messages-on-the-page)."""

    topics: tuple[str, ...] = ()
    """Patterns of the topics, such as `clicks*`, which has the dead letters of `clicks` as well.
    Without any, no messages are shown. Topics that begin with `_` never are."""
    shown_to: MessageReaders = MessageReaders.OPERATORS
    """`operators` of `operators_file`, or all `readers` of the page."""
    within: Seconds = 3.0
    """A reading takes at most so long; what was read by then is shown."""

    def __post_init__(self) -> None:
        check_positive(self, "within")

    def shows(self, topic: str) -> bool:
        return not topic.startswith("_") and any(fnmatchcase(topic, each) for each in self.topics)


class CommandsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files that are named in the commands that the audit shows beside faults."""

    loader: FilePath = "/etc/penstock/loader.yaml"
    """`--config` of `penstock load`, on the loader's host."""
    audit: FilePath = ""
    """`--config` of `penstock audit`, on this host; without it, the file that this audit was
    started with."""
    environment: FilePath = ""
    """A file of variables that a shell reads before each command, such as the one that
    `penstock up` writes."""
    up: FolderPath = ""
    """The directory of the `penstock up` that runs the programs, which restarts them
    (`penstock up --restart`). Without it, they are units of systemd."""


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One audit."""

    data_dir: FolderPath
    """A directory of its own, for the [database](#the-database). One audit at a time has it."""
    clusters: dict[str, Cluster] = {}
    """Several clusters, by the name that their agents, brokers and loaders are told."""
    cluster: str = "local"
    """Of one cluster: its name, as its agents, brokers and loaders are told it."""
    brokers: tuple[HostAndPort, ...] = ("127.0.0.1:9092",)
    """Of one cluster: some of its brokers."""
    security: Security = Security()
    """Of one cluster: [how its brokers are connected to](secure-connections.md)."""
    registry: Url = "http://127.0.0.1:8081"
    """Of one cluster: its schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """Of one cluster: [how its registry is
    asked](secure-connections.md#a-registry-with-logins)."""
    host: str = "127.0.0.1"
    """The address of page, API and metrics."""
    port: Port = 8090
    """The port of page, API and metrics; 0: any that is free."""
    tls: ListenerTls | None = None
    """[HTTPS](#tls-and-logins), and nothing else, on that port."""
    users_file: FilePath = ""
    """[Who may log in](#tls-and-logins) with a password."""
    tokens_file: FilePath = ""
    """Programs that may ask with a token."""
    operators_file: FilePath = ""
    """[Who may accept faults and retire hosts](#operators) on the page and over HTTP: a name of
    those above a line. Without it nobody may."""
    proxy: ProxyLogin | None = None
    """A reverse proxy that is believed when it says who asks."""
    host_names: tuple[str, ...] = ()
    """By which names, or addresses, it is asked for. Any other in the header `Host` is refused;
    without names, none is."""
    insecure: bool = False
    """Must be true for a `host` that other machines can reach where nobody has to log in, or where
    passwords go without `tls`."""
    inventory: FilePath = ""
    """A file that says [who is expected to ship](#expected-agents). It is read again when it
    changes."""
    window: WholeSeconds = 60
    """As agents, brokers and loaders have it; it divides an hour."""
    retention: Seconds = 7 * 86_400.0
    """Windows, files and loads older than that are forgotten."""
    expected: Seconds = 30 * 86_400.0
    """An agent that was not heard of for so long is not waited for."""
    grace: Seconds = 60.0
    """How long a statement may be under way before its absence is a fault."""
    poll: Seconds = 0.5
    """How often a ledger is asked for what is new."""
    alerts: AlertsConfig = AlertsConfig()
    groups: GroupsConfig = GroupsConfig()
    count: CountingConfig = CountingConfig()
    messages: MessagesConfig = MessagesConfig()
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
                "`operators_file` needs logins: `users_file`, `tokens_file` or `proxy`"
            )
        by_operators = self.messages.shown_to is MessageReaders.OPERATORS
        if self.messages.topics and by_operators and not self.operators_file:
            raise ValueError(
                "`messages` are shown to operators: give `operators_file`, or say "
                "`messages.shown_to: readers`"
            )
        if self.alerts.silent < 2 * self.window:
            raise ValueError(
                "`alerts.silent` must be two windows at least: an idle agent is heard once a window"
            )

    def _check_exposed(self) -> None:
        if self.insecure or is_loopback(self.host):
            return
        where = f"`host: {self.host}` can be reached from other machines and"
        if not self.is_locked:
            raise ValueError(
                f"{where} nobody has to log in: give `users_file`, `tokens_file` or `proxy`, or "
                "say `insecure: true` if that is meant"
            )
        if self.tls is None and (self.users_file or self.tokens_file):
            raise ValueError(
                f"{where} passwords and tokens would be sent as they are: give `tls`, or say "
                "`insecure: true` if that is meant"
            )

    @property
    def is_locked(self) -> bool:
        """Whether anybody has to show who he is."""
        shown = self.tls is not None and self.tls.requires_certificates
        return shown or self.has_logins

    @property
    def has_logins(self) -> bool:
        """Whether that is asked of each request."""
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
        """Of all clusters, and its own: whose end somebody should know of in time."""
        found = CertificateFiles() if self.tls is None else self.tls.certificate_files
        for each in self.all_clusters.values():
            found |= each.security.certificate_files
        return found

    @property
    def all_clusters(self) -> dict[str, Cluster]:
        """Those that are read, by name."""
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
