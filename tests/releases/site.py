"""Penstock's programs around one directory, as a kept release was made by them and is opened again.

{directory}/
    broker/data, web-1/data, web-2/data, counter/data, warehouse     what is kept
    audit/data, registry                                              the same, and nothing
    {host}/logs                                                       what agents follow

The broker has a ZooKeeper embedded, so that the shared map is kept with its logs.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports

WINDOW: Final = 5
FOREVER: Final = 10.0**9  # seconds: what is kept grows old
TOPICS: Final = ("views", "shop_logs", "gone")  # of agents
VIEWS, SHOP_LOGS, GONE = TOPICS


class Site:
    """Its programs, none of them started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.warehouse = directory / "warehouse"
        (zookeeper,) = free_ports(1)
        self.broker = BrokerProcess(
            directory / "broker",
            zookeeper="embedded",
            settings={
                "zookeeper_port": zookeeper,
                "zookeeper_session_seconds": 2.0,
                "ledger_interval": 0.3,
                "window": WINDOW,
                "intervals": {"compaction": 0.3, "checkpoint": 1.0},
                "auto_create_topics": False,
            },
        )
        self.registry = RegistryProcess(directory / "registry", brokers=self.broker.bootstrap)
        with self.broker.config.open("a") as config:
            config.write(f"registry: {self.registry.url}\n")
        self.audit = self._audit("audit")

    def _audit(self, name: str, **settings: Any) -> AuditProcess:
        wanted = {"window": WINDOW, "grace": 2.0, "retention": FOREVER, "expected": FOREVER}
        return AuditProcess(
            self.directory / name,
            brokers=self.broker.bootstrap,
            registry=self.registry.url,
            settings={**wanted, "alerts": {"silent": FOREVER, "late": FOREVER}, **settings},
        )

    def rebuilding_audit(self) -> AuditProcess:
        """One that has no database yet."""
        return self._audit("audit-anew")

    def counter_config(self, topics: Sequence[str]) -> Path:
        """For `penstock audit --count`."""
        return self._audit("counter", count={"topics": list(topics), "interval": 0.2}).config

    def logs(self, host: str) -> Path:
        return self.directory / host / "logs"

    def agent(self, host: str, *, brokers: str = "", **settings: Any) -> AgentProcess:
        """Views are JSON with a time of their own, logs of the shop are text over several lines."""
        logs = self.logs(host)
        logs.mkdir(parents=True, exist_ok=True)
        time = {"field": "ts", "format": "epoch_ms"}
        inputs: list[Mapping[str, object]] = [
            {"paths": [f"{logs}/{topic}.log"], "topic": topic, "format": "json", "time": dict(time)}
            for topic in (VIEWS, GONE)
        ]
        inputs.append(
            {
                "paths": [f"{logs}/{SHOP_LOGS}.log"],
                "topic": SHOP_LOGS,
                "multiline": {"indentation": True, "timeout": 0.2},
            }
        )
        return AgentProcess(
            self.directory / host,
            brokers=brokers or self.broker.bootstrap,
            registry=self.registry.url,
            inputs=inputs,
            settings={"window": WINDOW, "hold_deleted": {"seconds": 0.3}, **settings},
        )

    def load_settings(self) -> dict[str, Any]:
        """A loader's configuration, but for which topics."""
        return {
            "root": f"file://{self.warehouse}",
            "cluster": "test",
            "brokers": [self.broker.bootstrap],
            "registry": self.registry.url,
            "window": WINDOW,
        }

    def schemas(self, versions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """The ids of these versions of subjects."""
        ask = self.registry.ask
        return {
            subject: {
                version: ask("GET", f"/subjects/{subject}/versions/{version}").body["id"]
                for version in each
            }
            for subject, each in versions.items()
        }

    @contextmanager
    def brokers(self) -> Iterator[Brokers]:
        with Brokers(Bootstrap.of(self.broker.bootstrap), patience_seconds=30) as brokers:
            yield brokers


def view(began: int, number: int) -> bytes:
    """A line of an application: one event a second from then on."""
    line = {"ts": began + number * 1000, "n": number, "url": f"/item/{number % 17}"}
    return json.dumps(line).encode() + b"\n"


def shop_log(number: int) -> bytes:
    """Every tenth line has a stack trace behind it."""
    trace = "\n\tat shop.Cart.add(Cart.java:7)\n\tat shop.Main.main(Main.java:3)"
    return f"shop {number}{trace if number % 10 == 0 else ''}\n".encode()
