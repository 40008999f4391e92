"""A Penstock agent as a child process, run as a user runs it: `python -m penstock agent`.

Its configuration, data directory and port stay the same over all its starts, so that a restart
finds what the process before left. It counts as started when `/readyz` says yes.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.server_process import RunningServer, ServerProcess, free_ports, http_page

REPOSITORY = Path(__file__).resolve().parent.parent

# What is seconds in production is fractions here, so that tests need not wait.
QUICK: Mapping[str, object] = {
    "scan_interval": 0.25,
    "ledger_interval": 0.3,
    "batches": {"linger": 0.02},
}


class AgentProcess(RunningServer):
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
        """`wrapper` is a command that runs the agent's as its arguments, such as setpriv."""
        directory.mkdir(parents=True, exist_ok=True)
        (self.http_port,) = free_ports(1)
        self.host = directory.name
        self.data_dir = directory / "data"
        self.config = directory / "agent.yaml"
        self.settings: dict[str, object] = {
            **QUICK,
            "cluster": "test",
            "brokers": brokers.split(","),
            "registry": registry,
            "host": self.host,
            "http_port": self.http_port,
            "data_dir": str(self.data_dir),
            **({"inputs": [dict(each) for each in inputs]} if inputs else {}),
            **(settings or {}),
        }
        self.configure()
        agent = [sys.executable, "-m", "penstock", "agent", "--config", str(self.config)]
        self.process = ServerProcess(
            [*wrapper, *agent],
            output=directory / "agent.log",
            environment=environment,
            directory=REPOSITORY,
        )

    def configure(self, **settings: object) -> None:
        """Writes the configuration with these changes; a running agent is not told."""
        self.settings.update(settings)
        self.config.write_text(yaml.safe_dump(self.settings))

    def ready(self) -> bool:
        return self.http("/readyz")[0] == 200

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP port; status 0 while nobody answers."""
        return http_page(self.http_port, path)

    def status(self) -> Any:
        """What `/status` says, as JSON's values; None while nobody answers."""
        code, body = self.http("/status")
        return json.loads(body) if code == 200 else None

    def command(self, *arguments: str, within: float = 30) -> subprocess.CompletedProcess[str]:
        """Another command of `penstock`, run to its end."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    @property
    def alive(self) -> bool:
        return self.process.alive

    def said(self, *words: str) -> list[str]:
        """The lines of its output with all of these words in them, whatever their case."""
        wanted = [word.lower() for word in words]
        return [
            line for line in self.log().splitlines() if all(word in line.lower() for word in wanted)
        ]
