"""Runs a Penstock program as a child process, as a user would: `python -m penstock NAME`.

Configuration, directory and ports stay the same over restarts, so that other programs find it again
and it finds its earlier data. It is ready once `/readyz` says so.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from harness.processes.server_process import RunningServer, ServerProcess, http_page

REPOSITORY: Final = Path(__file__).resolve().parents[2]


class PenstockProcess(RunningServer):
    """One program, with its configuration in `directory`. Commands begin with `penstock`."""

    http_port: int

    def __init__(
        self,
        name: str,
        directory: Path,
        settings: Mapping[str, object],
        *,
        environment: Mapping[str, str] | None = None,
        program: str = "penstock",
        wrapper: Sequence[str] = (),
    ) -> None:
        """`program` is the module to run. `wrapper` is a command that runs it, such as setpriv."""
        directory.mkdir(parents=True, exist_ok=True)
        self.config = directory / f"{name}.yaml"
        self.settings: dict[str, object] = dict(settings)
        self.configure()
        self.penstock = [sys.executable, "-m", program]
        self.process = ServerProcess(
            [*wrapper, *self.penstock, name, "--config", str(self.config)],
            output=directory / f"{name}.log",
            environment=environment,
            directory=REPOSITORY,
        )

    def configure(self, **settings: object) -> None:
        """Changes the configuration file; a running program does not notice this."""
        self.settings.update(settings)
        self.config.write_text(yaml.safe_dump(self.settings))

    def ready(self) -> bool:
        return self.http("/readyz")[0] == 200

    def http(self, path: str) -> tuple[int, str]:
        """Returns status and body of a page on the program's HTTP port; status 0 if it does not
        answer."""
        return http_page(self.http_port, path)

    def run(self, *arguments: str, within: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs another `penstock` command to its end."""
        return subprocess.run(
            [*self.penstock, *arguments],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
