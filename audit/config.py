"""What an audit can be told in its configuration file. Checked when it is loaded, once.

Each key is explained at its field: `penstock keys` and docs/audit.md have it from there.
"""

from typing import Final

import msgspec

from client.addresses import check_brokers
from client.bootstrap import Bootstrap
from client.security import Security
from ground.http_security import HttpSecurity
from ground.listening import check_exposed
from ground.settings import (
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
from schemas.remote.address import RegistryAddress, check_registry

_PORTS: Final = 65536


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster whose `_audit` is read."""

    brokers: tuple[HostAndPort, ...]
    """Some of its brokers."""
    security: Security = Security()
    """[How the brokers are connected to](secure-connections.md): TLS, and a login."""
    registry: Url = "http://127.0.0.1:8081"
    """Its schema registry; several instances separated by commas."""
    registry_security: HttpSecurity = HttpSecurity()
    """[How the registry is asked](secure-connections.md#a-registry-behind-locks): TLS, and a
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
    """What is told to a webhook, and when."""

    webhook: Url = ""
    """An `http://` or `https://` URL that [alerts](#alerts) are posted to; without it nothing
    is told, but all is shown. With `alerts.webhook_file` it stands in a file."""
    silent: Seconds = 600.0
    """An agent that was not heard for so long is told to be silent; the page
    [shows it](#the-page) earlier. At least two windows, as an idle agent
    is heard once in each; more than that where agents have a `ledger_interval` longer than a
    window."""
    late: Seconds = 86_400.0
    """A window that still waits so long after its end is late."""
    after: Seconds = 120.0
    """Something missing, duplicated, changed or unknown, or a table that cannot be loaded, must
    stay so for that long before it is told."""

    def __post_init__(self) -> None:
        check_positive(self, "silent", "late")
        check_not_negative(self, "after")
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ValueError("`webhook` must be an http:// or https:// URL")


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
    asked](secure-connections.md#a-registry-behind-locks)."""
    host: str = "127.0.0.1"
    """The address of page, API and metrics."""
    port: Port = 8090
    """The port of page, API and metrics; 0: any that is free."""
    insecure: bool = False
    """Must be true for a `host` that other machines can reach: nobody has to log in."""
    inventory: FilePath = ""
    """A file that says [who is expected to ship](#who-is-expected). It is read again when it
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
    count: CountingConfig = CountingConfig()

    def __post_init__(self) -> None:
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not self.clusters:
            check_brokers(self.brokers)
            check_registry(self.registry, self.registry_security)
        if not 0 <= self.port < _PORTS:
            raise ValueError("`port` must be between 0 and 65535")
        check_exposed("host", self.host, insecure=self.insecure)
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        check_positive(self, "retention", "expected", "poll")
        check_not_negative(self, "grace")
        if self.alerts.silent < 2 * self.window:
            raise ValueError(
                "`alerts.silent` must be two windows at least: an idle agent is heard once a window"
            )

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
