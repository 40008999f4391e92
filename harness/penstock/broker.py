"""Runs a Penstock broker as a child process (program.py)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.penstock.program import REPOSITORY, PenstockProcess
from harness.processes.server_process import free_ports

__all__ = ["REPOSITORY", "BrokerProcess"]


class BrokerProcess(PenstockProcess):
    """One broker on loopback: `with BrokerProcess(directory, zookeeper=...) as broker`."""

    def __init__(
        self,
        directory: Path,
        *,
        zookeeper: str,
        broker_id: int = 1,
        data_dir: Path | None = None,
        topic_defaults: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        open_files: int | None = None,
        program: str = "penstock",
    ) -> None:
        """`open_files` limits its open files. The first of `listeners` is `bootstrap`."""
        self.broker_id = broker_id
        self.data_dir = data_dir or directory / "data"
        self.port, self.http_port = free_ports(2)
        config: dict[str, Any] = {
            "id": broker_id,
            "cluster": "test",
            "http_port": self.http_port,
            "data_dir": str(self.data_dir),
            "zookeeper": zookeeper,
            "topic_defaults": {"partitions": 1, **(topic_defaults or {})},
            **(settings or {}),
        }
        if "listeners" in config:
            self.port = config["listeners"][0]["port"]
        else:
            config = {"host": "127.0.0.1", "port": self.port, **config}
        self.bootstrap = f"127.0.0.1:{self.port}"
        prlimit = () if open_files is None else ("prlimit", f"--nofile={open_files}")
        super().__init__(
            "broker", directory, config, environment=environment, program=program, wrapper=prlimit
        )

    def run_from(self, checkout: Path) -> None:
        """Makes the next start use the program in this checkout."""
        self.process.directory = checkout

    def complaints(self, kind: str) -> int:
        """Returns the number of complaints of this kind that the broker has counted."""
        _, page = self.http("/metrics")
        name = re.escape(f'penstock_broker_complaints_total{{kind="{kind}"}}')
        match = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
        return int(float(match[1])) if match else 0

    def rss(self) -> int:
        return self.process.rss()

    def cpu_seconds(self) -> float:
        return self.process.cpu_seconds()

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.data_dir / f"{topic}-{partition}"
