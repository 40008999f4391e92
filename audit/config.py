"""What an audit can be told in its configuration file. Checked when it is loaded, once.

Durations are in seconds.
"""

from typing import Final

import msgspec

from client.addresses import Address, check_brokers, parse_addresses
from schemas.remote.urls import parse_urls
from serving.exposure import check_exposed
from serving.settings import check_not_negative, check_positive

_PORTS: Final = 65536


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster whose `_audit` is read."""

    brokers: tuple[str, ...]
    registry: str = "http://127.0.0.1:8081"

    def __post_init__(self) -> None:
        check_brokers(self.brokers)
        try:
            parse_urls(self.registry)
        except ValueError as error:
            raise ValueError(f"`registry`: {error}") from None

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        return parse_addresses(",".join(self.brokers))


class Alerts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is told to a webhook, and when."""

    webhook: str = ""  # an http(s) URL; nothing is told without it, but all is shown
    silent: float = 600.0  # an agent that was not heard for so long
    late: float = 86_400.0  # a window that is still pending so long after its end
    after: float = 120.0  # a fault must stand so long before it is told

    def __post_init__(self) -> None:
        check_positive(self, "silent", "late")
        check_not_negative(self, "after")
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ValueError("`webhook` must be an http:// or https:// URL")


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host that is expected to ship, whether it was ever heard or not."""

    host: str
    topics: tuple[str, ...] = ()  # none: to anything


class Count(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is counted of clusters whose brokers keep no ledger of their own (`--count`)."""

    topics: tuple[str, ...] = ("*",)  # patterns; topics that begin with `_` never are
    interval: float = 10.0

    def __post_init__(self) -> None:
        check_positive(self, "interval")
        if not self.topics or not all(self.topics):
            raise ValueError("`topics` must name patterns of topics, such as `*`")


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One audit."""

    data_dir: str
    clusters: dict[str, Cluster] = {}  # by name, as their agents and brokers are told it
    cluster: str = "local"  # where there is only one
    brokers: tuple[str, ...] = ("127.0.0.1:9092",)
    registry: str = "http://127.0.0.1:8081"
    host: str = "127.0.0.1"
    port: int = 8090
    insecure: bool = False
    inventory: str = ""  # a file: hosts, one a line, or YAML; read again when it changes
    window: int = 60
    retention: float = 7 * 86_400.0  # of windows; the ledger's topic keeps as long by default
    expected: float = 30 * 86_400.0  # an agent not heard of for so long is not waited for
    grace: float = 60.0  # how long a statement may be under way before its absence is a fault
    poll: float = 0.5
    alerts: Alerts = Alerts()
    count: Count = Count()

    def __post_init__(self) -> None:
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not self.clusters:
            check_brokers(self.brokers)
            try:
                parse_urls(self.registry)
            except ValueError as error:
                raise ValueError(f"`registry`: {error}") from None
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
        return {self.cluster: Cluster(brokers=self.brokers, registry=self.registry)}
