"""`penstock load`, once or now and then, while other things go on. One load at a time."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from harness.hadoop.spark_jvm import quick_java
from penstock.services.load.summary import NOTHING_TO_DO
from tests.system.crash import Worker

WELL: Final = frozenset({0, NOTHING_TO_DO})  # what was there may have landed meanwhile
LOAD: Final = 900.0  # Spark begins slowly where much else runs


class Loader:
    """The program, its configuration, and where it lands."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        penstock: Sequence[str] = (sys.executable, "-m", "penstock"),
    ) -> None:
        """`settings`: whatever is not the same for all."""
        self.warehouse = directory / "warehouse"
        self.killed = 0  # loads that were under way
        self._directory, self._config = directory, directory / "loader.yaml"
        conf = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": quick_java()}
        self._settings = {
            "root": f"file://{self.warehouse}",
            "spark": {"master": "local[2]", "conf": conf},
            # What lands is compared as it was landed: no hour is closed or merged.
            "completeness": {"deadline": 100 * 365 * 86_400},
            **settings,
        }
        self._command = [*penstock, "load", "--json", "--config", str(self._config)]
        self._running: subprocess.Popen[str] | None = None

    def begin(
        self,
        *options: str,
        topics: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        """`topics`: those that are loaded, where they are not in the settings."""
        named = {"topics": list(topics)} if topics else {}
        self._config.write_text(yaml.safe_dump({**self._settings, **named}))
        with (self._directory / "load.log").open("ab") as log:
            self._running = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._directory,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        return self._running

    def load(
        self,
        *options: str,
        topics: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, list[dict[str, Any]]]:
        """Exit code, and what it says of each table; -1 if it did not end."""
        running = self.begin(*options, topics=topics, environment=environment)
        said = ""
        with suppress(subprocess.TimeoutExpired):
            said, _ = running.communicate(timeout=LOAD)
        code = running.returncode
        self.end()
        tables: list[dict[str, Any]] = []
        for line in said.splitlines():
            with suppress(ValueError):
                answer = json.loads(line)
                tables += answer.get("tables", []) if isinstance(answer, dict) else []
        return -1 if code is None else code, tables

    def kill(self) -> None:
        """The load that is under way, with its JVM, as a machine would that dies."""
        running = self._running
        if running is not None and running.poll() is None:
            self.killed += 1
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)

    def end(self) -> None:
        """The program that loads and its JVM, if they are there."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.communicate()


class Loads(Worker):
    """A load every so many seconds, if any."""

    def __init__(self, loader: Loader, every: float) -> None:
        super().__init__("loads")
        self._loader, self._every = loader, every
        self.codes: list[int] = []
        self._said: list[object] = []

    def work(self) -> None:
        while self._every and not self._stop_asked.wait(self._every):
            code, said = self._loader.load()
            self.codes.append(code)
            self._said.append(said)

    def come_to_an_end(self) -> None:
        """No further load begins; the one under way is waited for."""
        self.end(within=LOAD)
        self.finish()

    def failed(self) -> list[str]:
        """Those that nobody killed."""
        wrong = [
            f"a load meanwhile ended with {code}: {said}"
            for code, said in zip(self.codes, self._said, strict=True)
            if code not in WELL | {-signal.SIGKILL}
        ]
        killed = self.codes.count(-signal.SIGKILL)
        if killed > self._loader.killed:
            wrong.append(f"{killed} loads were killed, {self._loader.killed} of them by us")
        return wrong
