"""Spark, as commands start it: with Java, its output told apart, and errors of one line.

What Spark's JVM writes, and its Python workers with it, are events like all others, one line each.
The JVM is given a pipe, so that nothing of it gets between the lines of a terminal or into results.
What it says of itself at every start is dropped. What it said last is remembered: a JVM that cannot
start says why there, and nowhere else.

A load that finds nothing new asks for no Spark: then the driver has nothing to do for it. Where one
is needed, whichever of the load's threads asks first starts it, and it ends with the load. What
keeps Spark from starting is kept, too: it is the same for all tables, and none tries once more.
"""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from cluster.errors import NoJava
from cluster.zookeeper_server.jars import find_java
from loader.config import LoaderConfig, Spark
from loader.errors import LoaderError, SparkFailed
from loader.spark.java_classes import JavaClasses
from loader.spark.packing import PackedEnvironment
from penstock.cli.failures import missing_extra

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork

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
    "NOTE: Picked up JDK_JAVA_OPTIONS:",
    "WARNING: Using incubator modules:",
    "Setting default log level to ",
    "Setting Spark log level to ",
    "To adjust logging level use ",
)
_NO_JVM: Final = "JAVA_GATEWAY_EXITED"


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


def check_spark() -> None:
    """That it could be started. Raises LoaderError."""
    if find_spec("pyspark") is None:
        raise LoaderError(missing_extra("Spark", "pyspark", "loader"))
    try:
        find_java()
    except NoJava:
        raise LoaderError(
            "Spark needs Java 17 or newer, and there is none on the PATH nor in JAVA_HOME: "
            "apt install default-jre-headless"
        ) from None


class SparkJvm:
    """The JVM that this process starts once it is asked for Spark, for all sessions that come one
    after the other. A context, with which it ends."""

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
        """Whether the JVM writes its classes to a file when it ends."""
        return self._may_run and self._classes.patience > 0

    def end(self) -> None:
        """Ends the JVM, if it runs."""
        if not self._may_run:
            return
        from loader.spark.session import end_jvm  # noqa: PLC0415

        self._may_run = False
        in_peace = end_jvm(self._classes.patience)
        self._classes.keep(whole=in_peace)

    def start(self, packed: PackedEnvironment | None) -> "SparkWork":
        """A session. Raises LoaderError."""
        check_spark()
        # PySpark comes with these.
        import pyspark_penstock  # noqa: PLC0415
        from loader.run.spark_work import SparkWork  # noqa: PLC0415
        from loader.spark.session import open_session  # noqa: PLC0415

        sources = [getattr(pyspark_penstock, name) for name in pyspark_penstock.__all__]
        self._may_run = True
        try:
            session = open_session(
                self._with_our_options(), sources, packed, output=self._output.descriptor
            )
        except SparkFailed as error:
            if _NO_JVM not in str(error):
                raise
            why = self._output.why_it_ended()
            raise SparkFailed(f"Spark's JVM did not start: {why}") from error
        return SparkWork(session)

    def _with_our_options(self) -> LoaderConfig:
        spark = self._config.spark
        asked = spark.settings.get(JAVA_OPTIONS, "")
        classes = self._classes.options(asked, spark.settings, os.environ)
        options = f"{quiet_java_options(asked, os.environ)} {classes}".strip()
        ours = Spark(master=spark.master, conf={**spark.conf, JAVA_OPTIONS: options})
        return msgspec.structs.replace(self._config, spark=ours)


class SparkWhenNeeded:
    """A context. `start` raises LoaderError."""

    def __init__(self, start: "Callable[[], SparkWork]") -> None:
        self._start = start
        self._starting = threading.Lock()
        self._lock = threading.Lock()  # of `_work`; never held for long
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
        """Raises LoaderError."""
        with self._starting:
            if self.failure is not None:
                raise self.failure
            if self._work is None:
                try:
                    started = self._start()
                except LoaderError as error:
                    self.failure = error
                    raise
                with self._lock:
                    self._work = started
            return self._work

    def cancel_jobs(self) -> None:
        """Those that run now. Does not wait for a session that is just being started."""
        with self._lock:
            if self._work is not None:
                self._work.cancel_jobs()
