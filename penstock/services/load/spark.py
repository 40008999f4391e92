"""Starts Spark for commands, logs the output of its JVM, and turns its errors into one line.

The JVM and its Python workers write to a pipe, so that their output never mixes with a terminal's
or with results. Each line becomes a log event; the usual lines of every start are dropped. The last
lines are remembered, as a JVM that cannot start reports the reason only there.

Spark is started when a thread of the load first needs it, and ends with the load; a load without
new events needs none. A failure to start is remembered: it is the same for all tables, and starting
is not tried again.
"""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from cluster.errors import NoJava
from cluster.zookeeper_server.jars import find_java
from loader.config import LoaderConfig
from loader.errors import LoaderError, SparkFailed
from loader.spark.java_classes import JavaClasses
from loader.spark.packing import PackedEnvironment
from penstock.cli.failures import missing_extra

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork
    from loader.spark.staging import StagedFile

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
_USUAL_LINES: Final = (
    "NOTE: Picked up JDK_JAVA_OPTIONS:",
    "WARNING: Using incubator modules:",
    "Setting default log level to ",
    "Setting Spark log level to ",
    "To adjust logging level use ",
)
_NO_JVM: Final = "JAVA_GATEWAY_EXITED"


def quiet_java_options(options: str, environ: Mapping[str, str]) -> str:
    """Returns the driver's Java options, with our log configuration unless the user has one."""
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if "log4j" in options or (folder and Path(folder, "log4j2.properties").exists()):
        return options
    return f"{options} -Dlog4j2.configurationFile={_PROPERTIES.as_uri()}".strip()


class SparkOutput:
    """The JVM's output. A thread logs everything that the JVM writes to `descriptor`."""

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
        """Closes our end, without waiting for a running JVM to close its own."""
        os.close(self.descriptor)

    def why_it_ended(self) -> str:
        """Returns the line of a dead JVM that most likely has the reason; empty if the JVM wrote
        nothing."""
        # After everything that the JVM has written, some of which may not be read yet.
        os.write(self.descriptor, b"\n" + _MARK + b"\n")
        self._is_read.wait(_PATIENCE_SECONDS)
        lines = list(self._last)
        error_lines = [line for line in lines if _BLAME.search(line)]
        return next(iter([*error_lines, *lines[-1:]]), "")

    def _read(self) -> None:
        # Not through a file object: a thread that waits in one blocks the exit of the process.
        line = b""
        while chunk := os.read(self._reading, _AT_ONCE):
            *whole_lines, line = (line + chunk).split(b"\n")
            for whole_line in whole_lines:
                if whole_line == _MARK:
                    self._is_read.set()
                    continue
                self._take(whole_line[:_LONGEST].decode(errors="replace").strip())
            line = line[:_LONGEST]
        self._take(line.decode(errors="replace").strip())
        os.close(self._reading)

    def _take(self, line: str) -> None:
        if not line or line.startswith(_USUAL_LINES):
            return
        self._last.append(line)
        event = _EVENT.fullmatch(line)
        if event:
            self._log.log(_LEVELS.get(event[1], logging.DEBUG), "%s", event[2])
        else:
            self._log.info("%s", line)


def check_spark() -> None:
    """Checks that Spark and Java are installed. Raises LoaderError."""
    if find_spec("pyspark") is None:
        raise LoaderError(missing_extra("Spark", "pyspark", "loader"))
    try:
        find_java()
    except NoJava:
        raise LoaderError(
            "Spark needs Java 17 or later, which is neither on the PATH nor in JAVA_HOME: "
            "apt install default-jre-headless"
        ) from None


class SparkJvm:
    """The JVM of this process, started with the first session and used by all later ones. The
    context ends it."""

    def __init__(self, config: LoaderConfig, classes: JavaClasses) -> None:
        self._config = config
        self._classes = classes
        self._output = SparkOutput()
        self._may_run = False

    def __enter__(self) -> Self:
        self._output.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        self._output.__exit__(kind, error, trace)

    @property
    def makes_classes(self) -> bool:
        """Whether the JVM writes a class archive when it ends."""
        return self._may_run and self._classes.patience > 0

    def end(self) -> None:
        """Ends the JVM if it is running."""
        if not self._may_run:
            return
        from loader.spark.session import end_jvm  # noqa: PLC0415

        self._may_run = False
        ended_cleanly = end_jvm(self._classes.patience)
        self._classes.keep(whole=ended_cleanly)

    def start(self, packed: PackedEnvironment | None) -> "SparkWork":
        """Starts a session, and returns it. Raises LoaderError."""
        check_spark()
        # These import PySpark.
        import pyspark_penstock  # noqa: PLC0415
        from loader.run.spark_work import SparkWork  # noqa: PLC0415
        from loader.spark.session import open_session  # noqa: PLC0415

        sources = [getattr(pyspark_penstock, name) for name in pyspark_penstock.__all__]
        with self._starting():
            session = open_session(
                self._with_our_options(), sources, packed, output=self._output.descriptor
            )
        return SparkWork(session)

    def stage(self, packed: PackedEnvironment | None) -> "list[StagedFile]":
        """Copies Spark, and the pack if there is one, to `spark.staged`. Raises LoaderError."""
        check_spark()
        from loader.spark.session import stage  # noqa: PLC0415

        with self._starting():
            return stage(self._with_our_options(), packed, output=self._output.descriptor)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Names the reason if the JVM does not start."""
        self._may_run = True
        try:
            yield
        except SparkFailed as error:
            if _NO_JVM not in str(error):
                raise
            reason = self._output.why_it_ended()
            raise SparkFailed(f"Spark's JVM did not start: {reason}") from error

    def _with_our_options(self) -> LoaderConfig:
        spark = self._config.spark
        java_options = spark.settings.get(JAVA_OPTIONS, "")
        classes = self._classes.options(java_options, spark.settings, os.environ)
        options = f"{quiet_java_options(java_options, os.environ)} {classes}".strip()
        spark_with_options = msgspec.structs.replace(
            spark, conf={**spark.conf, JAVA_OPTIONS: options}
        )
        return msgspec.structs.replace(self._config, spark=spark_with_options)


class SparkWhenNeeded:
    """Starts Spark on first use, and ends it with the context. `start` raises LoaderError."""

    def __init__(self, start: "Callable[[], SparkWork]") -> None:
        self._start = start
        self._starting = threading.Lock()
        self._lock = threading.Lock()  # guards `_work`; held briefly
        self._work: SparkWork | None = None
        self.failure: LoaderError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            work, self._work = self._work, None
        if work is not None:
            work.end()

    @property
    def is_started(self) -> bool:
        return self._work is not None

    def work(self) -> "SparkWork":
        """Returns the running Spark, which is started if necessary. Raises LoaderError."""
        with self._starting:
            if self.failure is not None:
                raise self.failure
            if self._work is None:
                try:
                    work = self._start()
                except LoaderError as error:
                    self.failure = error
                    raise
                with self._lock:
                    self._work = work
            return self._work

    def cancel_jobs(self) -> None:
        """Cancels the running jobs, without waiting for a session that is being started."""
        with self._lock:
            if self._work is not None:
                self._work.cancel_jobs()
