"""One long-running program of a checkout of Penstock, started, asked, killed."""

import http.client
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import yaml

from harness.server_process import free_ports
from harness.standing_still import freeze
from tests.campaigns.witness.keeping import KeptProcess

START: Final = 400.0  # seconds that a program may take to be ready, on a busy machine


def ask(port: int, path: str, *, timeout: float = 30) -> tuple[int, bytes]:
    """Status and body; status 0 while nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


class Program:
    """One long-running program, whose configuration and port stay the same over its starts."""

    def __init__(
        self,
        checkout: Path,
        name: str,
        directory: Path,
        settings: Mapping[str, object],
        *,
        http_port: int,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.directory = directory
        self.http_port = http_port
        self.config = directory / f"{name}.yaml"
        self._settings = dict(settings)
        self.config.write_text(yaml.safe_dump(self._settings))
        command = [str(checkout / ".venv/bin/penstock"), name, "--config", str(self.config)]
        self.process = KeptProcess(
            [*command, *options],
            output=directory / f"{name}{''.join(options)}.log",
            environment=environment,
            directory=directory,
        )

    @property
    def alive(self) -> bool:
        return self.process.alive

    def ready(self) -> bool:
        return ask(self.http_port, "/readyz", timeout=5)[0] == 200

    def spawn(self) -> None:
        if not self.process.alive:
            self.process.spawn()

    def start(self) -> None:
        self.spawn()
        self.process.wait_ready(self.ready, within=START)

    def move(self) -> None:
        """To another port: somebody else has taken this one while it did not run."""
        (self.http_port,) = free_ports(1)
        self._settings["http_port"] = self.http_port
        self.config.write_text(yaml.safe_dump(self._settings))

    def freeze(self) -> None:
        if self.process.alive:
            freeze(self.process.pid)

    def thaw(self) -> None:
        if self.process.alive:
            os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        if self.process.alive:
            with suppress(Exception):
                self.process.terminate(within=30)
        self.process.kill()
