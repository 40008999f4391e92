"""Runs a Penstock agent as a child process (program.py)."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.penstock.program import PenstockProcess
from harness.processes.server_process import free_ports

# Fractions of the production values, so that tests need not wait.
QUICK: Mapping[str, object] = {
    "scan_interval": 0.25,
    "ledger_interval": 0.3,
    "batches": {"linger": 0.02},
}


class AgentProcess(PenstockProcess):
    """One agent: `with AgentProcess(directory, brokers=…, registry=…, inputs=[…]) as agent`."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: str,
        registry: str,
        inputs: Sequence[Mapping[str, object]],
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        (self.http_port,) = free_ports(1)
        self.host = directory.name
        self.data_dir = directory / "data"
        config = {
            **QUICK,
            "cluster": "test",
            "brokers": brokers.split(","),
            "registry": registry,
            "host": self.host,
            "http_port": self.http_port,
            "data_dir": str(self.data_dir),
            **({"inputs": [dict(agent_input) for agent_input in inputs]} if inputs else {}),
            **(settings or {}),
        }
        super().__init__("agent", directory, config, environment=environment, wrapper=wrapper)

    def status(self) -> Any:
        """Returns `/status` as JSON values; None if the agent does not answer."""
        code, body = self.http("/status")
        return json.loads(body) if code == 200 else None

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs another `penstock` command to its end."""
        return self.run(*arguments)

    @property
    def alive(self) -> bool:
        return self.process.alive

    def said(self, *words: str) -> list[str]:
        """Returns the output lines that contain all of these words, ignoring case."""
        lower_words = [word.lower() for word in words]
        return [
            line
            for line in self.log().splitlines()
            if all(word in line.lower() for word in lower_words)
        ]
