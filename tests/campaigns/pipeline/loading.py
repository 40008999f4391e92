"""`penstock load`, once or now and then, while other things go on. One load at a time."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.services.load.summary import NOTHING_TO_DO
from tests.campaigns.command import REPOSITORY
from tests.campaigns.witness.pipeline import small_spark
from tests.system.crash import Worker

WELL: Final = frozenset({0, NOTHING_TO_DO})  # what was there may have landed meanwhile
LOAD: Final = 900.0  # Spark begins slowly where much else runs


class Loader:
    """The program, its configuration, and where it lands."""

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        """`settings`: whatever is not the same for all."""
        self.warehouse = directory / "warehouse"
        self.killed = 0  # loads that were under way
        self._log = directory / "load.log"
        config = directory / "loader.yaml"
        wanted = {
            "root": f"file://{self.warehouse}",
            "spark": small_spark(),
            # What lands is compared as it was landed: no hour is closed or merged.
            "completeness": {"deadline": 100 * 365 * 86_400},
            **settings,
        }
        config.write_text(yaml.safe_dump(wanted))
        self._command = [sys.executable, "-m", "penstock", "load", "--config", str(config)]
        self._running: subprocess.Popen[bytes] | None = None

    def load(self, *options: str) -> tuple[int, str]:
        """Exit code, and what it said last."""
        begins = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as output:
            running = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
                start_new_session=True,
            )
        self._running = running
        try:
            code = running.wait(LOAD)
        except subprocess.TimeoutExpired:
            code = -1
        self.end()
        with self._log.open(errors="replace") as said:
            said.seek(begins)
            return code, "\n".join(said.read().splitlines()[-8:])

    def kill(self) -> bool:
        """The load that is under way, with its JVM; False if there is none."""
        running = self._running
        if running is None or running.poll() is not None:
            return False
        self.killed += 1
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        return True

    def end(self) -> None:
        """The program that loads and its JVM, if they are there."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


class Loads(Worker):
    """A load every so many seconds, if any."""

    def __init__(self, loader: Loader, every: float) -> None:
        super().__init__("loads")
        self._loader, self._every = loader, every
        self.codes: list[int] = []
        self.said: list[str] = []

    def work(self) -> None:
        while self._every and not self._stop_asked.wait(self._every):
            code, said = self._loader.load()
            self.codes.append(code)
            self.said.append(said)

    def come_to_an_end(self) -> None:
        """No further load begins; the one under way is waited for."""
        self.end(within=LOAD)
        self.finish()

    def failed(self) -> list[str]:
        """Those that nobody killed."""
        wrong = [
            f"a load meanwhile ended with {code}: {said}"
            for code, said in zip(self.codes, self.said, strict=True)
            if code not in WELL | {-signal.SIGKILL}
        ]
        killed = self.codes.count(-signal.SIGKILL)
        if killed > self._loader.killed:
            wrong.append(f"{killed} loads were killed, {self._loader.killed} of them by us")
        return wrong
