"""What a broker can be told in its configuration file. Checked when it is loaded, once."""

from typing import Any

import msgspec

from schemas.remote.urls import parse_urls
from serving.exposure import check_exposed
from serving.settings import check_positive

_BOTH_WAYS = (
    "say `zookeeper: embedded` for one that this broker starts and stops, "
    "or `zookeeper: host:2181,host:2181/penstock` for your own"
)


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients can make a broker hold. Sizes in bytes, times in seconds."""

    connections: int = 20_000
    request_bytes: int = 32 * 1024 * 1024
    requests_in_memory_bytes: int = 128 * 1024 * 1024
    unsent_response_bytes: int = 1024 * 1024
    send_buffer_bytes: int = 512 * 1024  # the kernel's, of each connection
    requests_per_connection: int = 1_000
    stalled_request_seconds: float = 30.0
    idle_connection_seconds: float = 600.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")
        if self.requests_in_memory_bytes < self.request_bytes:
            raise ValueError("`requests_in_memory_bytes` must be at least `request_bytes`")


class Intervals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a broker looks after its logs, in seconds."""

    checkpoint: float = 5.0
    retention: float = 60.0
    compaction: float = 15.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive")


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One broker."""

    id: int
    data_dir: str
    zookeeper: str = ""
    cluster: str = "local"
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str = ""
    advertised_port: int = 0
    http_host: str = "127.0.0.1"
    http_port: int = 9095
    rack: str = ""
    insecure: bool = False
    auto_create_topics: bool = True
    topic_defaults: dict[str, Any] = {}
    zookeeper_port: int = 2181
    zookeeper_dir: str = ""
    zookeeper_jars: str = ""
    zookeeper_secret: str = ""
    zookeeper_session_seconds: float = 18.0
    ledger: bool = True
    registry: str = ""  # without one there is no ledger
    ledger_interval: float = 10.0  # seconds
    window: int = 60
    limits: Limits = Limits()
    intervals: Intervals = Intervals()

    def __post_init__(self) -> None:
        if not 0 <= self.id < 2**31:
            raise ValueError("`id` must be between 0 and 2147483647")
        if not self.data_dir:
            raise ValueError("`data_dir` must name a directory")
        if not self.zookeeper:
            raise ValueError(f"`zookeeper` is missing: {_BOTH_WAYS}")
        for name in ("port", "http_port", "advertised_port", "zookeeper_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 0 and 65535")
        for name in ("host", "http_host"):
            check_exposed(name, getattr(self, name), insecure=self.insecure)
        if not 2.0 <= self.zookeeper_session_seconds <= 60.0:
            raise ValueError("`zookeeper_session_seconds` must be between 2 and 60")
        self._check_ledger()

    def _check_ledger(self) -> None:
        check_positive(self, "ledger_interval")
        if not 1 <= self.window <= 3600 or 3600 % self.window:
            raise ValueError("`window` must divide an hour, in whole seconds")
        if self.registry:
            try:
                parse_urls(self.registry)
            except ValueError as error:
                raise ValueError(f"`registry`: {error}") from None

    @property
    def keeps_ledger(self) -> bool:
        return self.ledger and bool(self.registry)

    @property
    def embeds_zookeeper(self) -> bool:
        return self.zookeeper == "embedded"
