"""What Spark's JVM writes, and its Python workers with it: events like all others, one line each.

The JVM is given a pipe, so that nothing of it gets between the lines of a terminal or into results.
What it says of itself at every start is dropped. What it said last is remembered: a JVM that cannot
start says why there, and nowhere else.
"""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

LOGGER: Final = "spark"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

_PROPERTIES: Final = Path(__file__).with_name("spark_log4j2.properties")
_REMEMBERED: Final = 50  # lines
_LONGEST: Final = 2000  # bytes of a line that are kept
_AT_ONCE: Final = 65_536
_MARK: Final = b"\0 read up to here"
_PATIENCE_SECONDS: Final = 10.0

# As `spark_log4j2.properties` writes them.
_EVENT: Final = re.compile(r"(FATAL|ERROR|WARN|INFO|DEBUG|TRACE) (\S+: .*)")
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
}
_BLAME: Final = re.compile(r"error|exception|\bnot?\b|unrecognized", re.IGNORECASE)
_ALWAYS_SAID: Final = (
    "WARNING: Using incubator modules:",
    "Setting default log level to ",
    "Setting Spark log level to ",
    "To adjust logging level use ",
)


def quiet_java_options(asked: str, environ: Mapping[str, str]) -> str:
    """The driver's Java options, with our own way of logging unless there is another one."""
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if "log4j" in asked or (folder and Path(folder, "log4j2.properties").exists()):
        return asked
    return f"{asked} -Dlog4j2.configurationFile={_PROPERTIES.as_uri()}".strip()


class SparkOutput:
    """`descriptor` is for the JVM. A thread reads what comes out of it, to its end."""

    def __init__(self) -> None:
        self._log = logging.getLogger(LOGGER)
        self._last: deque[str] = deque(maxlen=_REMEMBERED)
        self._reading, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._read, name="Spark's output", daemon=True)
        self._is_read = threading.Event()

    def __enter__(self) -> "SparkOutput":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """A JVM that runs has it open still: nobody waits for that."""
        os.close(self.descriptor)

    def why_it_ended(self) -> str:
        """The line of a JVM that is gone which says why, as far as that can be told; or nothing."""
        # Behind all that the JVM has written: what was there when it ended may not be read yet.
        os.write(self.descriptor, b"\n" + _MARK + b"\n")
        self._is_read.wait(_PATIENCE_SECONDS)
        lines = list(self._last)
        blamed = [line for line in lines if _BLAME.search(line)]
        return next(iter([*blamed, *lines[-1:]]), "")

    def _read(self) -> None:
        # Not through a file of Python's: a thread that waits in one keeps a process from ending.
        line = b""
        while piece := os.read(self._reading, _AT_ONCE):
            *whole, line = (line + piece).split(b"\n")
            for each in whole:
                if each == _MARK:
                    self._is_read.set()
                    continue
                self._take(each[:_LONGEST].decode(errors="replace").strip())
            line = line[:_LONGEST]
        self._take(line.decode(errors="replace").strip())
        os.close(self._reading)

    def _take(self, line: str) -> None:
        if not line or line.startswith(_ALWAYS_SAID):
            return
        self._last.append(line)
        event = _EVENT.fullmatch(line)
        if event:
            self._log.log(_LEVELS.get(event[1], logging.DEBUG), "%s", event[2])
        else:
            self._log.info("%s", line)
