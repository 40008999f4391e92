"""Runs one load, or loads at intervals until a signal.

The main thread handles signals; loads run on a thread of their own. Between two loads, SIGTERM or
Ctrl-C ends the program at once. During a load it cancels Spark's jobs, and no further step begins:
the next load reads again what was not committed, and publishes what was. A second signal kills the
process with its JVM.

Repeated loads run at the multiples of the interval since midnight UTC. The interval divides a day
or is whole days, so these are also its multiples since 1970. (Times are seconds since 1970.)

Spark is started for each load that needs it and stopped afterwards, so that no executors or tokens
are held between loads. The JVM keeps running.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from client.errors import ClientError
from columns.native import NATIVE, NOT_COMPILED
from ground.tls.certificate_expiry import CertificateWatch
from loader.config import LoaderConfig
from loader.errors import LoaderError
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome
from loader.spark.java_classes import JavaClasses, classes_directory
from loader.spark.packing import (
    PackedEnvironment,
    cache_directory,
    kept,
    pack_environment,
    runs_here,
)
from penstock.services.load.progress import LoadWatcher
from penstock.services.load.spark import SparkJvm, SparkWhenNeeded, check_spark
from penstock.services.load.summary import INTERRUPTED, NOTHING_TO_DO, EndedLoad
from schemas.errors import SchemaError

if TYPE_CHECKING:
    from loader.run.spark_work import SparkWork

_TURN_SECONDS: Final = 0.5
log = logging.getLogger("penstock.load")


def next_run(now: float, every: int) -> int:
    """Returns the time of the first load after `now`."""
    return (int(now // every) + 1) * every


def missed(began: float, ended: float, every: int) -> int:
    """Returns the number of loads that became due during a run."""
    return int(ended // every) - int(began // every)


class LoadProgram:
    """Runs loads. A context, which ends Spark's JVM. Raises LoaderError if Spark cannot be
    started."""

    def __init__(
        self,
        config: LoaderConfig,
        request: LoadRequest,
        watcher: LoadWatcher,
        *,
        pack: bool,
        hurried: bool,
    ) -> None:
        """`hurried`: the JVM must end quickly, so it caches no classes."""
        self._config = config
        self._request = request
        self._watcher = watcher
        self._certificates = CertificateWatch(config.security.certificate_files)
        self._packed = self._pack() if pack else None
        classes = JavaClasses(classes_directory(os.environ), makes=not hurried)
        self._jvm = SparkJvm(config, classes)
        self._events: SimpleQueue[int | Future[list[TableOutcome]]] = SimpleQueue()
        self._stopping = threading.Event()
        self._was_stopped = False  # before all tables were loaded
        self._spark: SparkWhenNeeded | None = None  # of the current load
        self._thread = ThreadPoolExecutor(1, "load")

    def __enter__(self) -> "LoadProgram":
        check_spark()
        if not NATIVE:
            log.warning(NOT_COMPILED)
        self._certificates.start()
        self._jvm.__enter__()
        listen_for_signals(self._events)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown()
        self._certificates.stop()
        self._jvm.__exit__(kind, error, trace)

    def once(self) -> EndedLoad:
        """Runs one load, and ends Spark's JVM."""
        return self._run(self._load_and_end)

    def _run(self, load_tables: Callable[[], list[TableOutcome]]) -> EndedLoad:
        start = time.monotonic()
        with self._watcher.at_work():
            load = self._thread.submit(load_tables)
            load.add_done_callback(self._events.put)
            is_over = False
            while not is_over:
                is_over = self._is_over(load)
            self._watcher.preparing("")
        seconds = time.monotonic() - start
        try:
            outcomes = tuple(load.result())
        except (LoaderError, ClientError, SchemaError) as error:
            return EndedLoad((), seconds, self._was_stopped, error)
        except Exception as bug:
            log.exception("internal error during the load")
            failure = LoaderError(f"{type(bug).__name__}: {bug}")
            return EndedLoad((), seconds, self._was_stopped, failure)
        return EndedLoad(outcomes, seconds, self._was_stopped)

    def repeatedly(self, every: int, tell: Callable[[EndedLoad], None]) -> int:
        """Runs loads until a signal. Returns the exit code."""
        while True:
            start = time.time()
            ended_load = self._run(self._load)
            tell(ended_load)
            if ended_load.error is not None:
                log.error("load failed reason=%s", ended_load.error)
            if ended_load.interrupted:
                return INTERRUPTED
            now = time.time()
            if skipped_count := missed(start, now, every):
                log.warning("load took longer than the interval skipped=%d", skipped_count)
            next_time = next_run(now, every)
            log.info("waiting until=%s", datetime.fromtimestamp(next_time, UTC).isoformat())
            if self._is_stopped_before(next_time):
                return 0 if ended_load.exit_code == NOTHING_TO_DO else ended_load.exit_code

    def _pack(self) -> PackedEnvironment | None:
        if runs_here(self._config.spark.master):
            log.warning("--pack-env has no effect with master=%s", self._config.spark.master)
            return None
        with self._watcher.at_work():
            self._watcher.preparing("packing the environment")
            archive = pack_environment(cache_directory(os.environ))
            self._watcher.preparing("")
        log.info("environment packed path=%s bytes=%d", archive.path, archive.bytes)
        return archive

    def _load(self) -> list[TableOutcome]:
        with SparkWhenNeeded(self._start_spark) as spark:
            self._spark = spark
            try:
                outcomes = load(
                    self._config, self._request, spark.work, self._watcher, self._stopping
                )
            finally:
                self._spark = None
                self._was_stopped = self._stopping.is_set()
                if spark.is_started:
                    self._watcher.preparing("stopping Spark")
        if spark.failure is not None:
            raise spark.failure
        return outcomes

    def _load_and_end(self) -> list[TableOutcome]:
        try:
            return self._load()
        finally:
            if self._jvm.makes_classes:  # takes many seconds, on a busy machine minutes
                self._watcher.preparing("caching Java classes for a faster start of Spark")
            self._jvm.end()

    def _start_spark(self) -> "SparkWork":
        self._watcher.preparing("starting Spark")
        try:
            if self._packed is not None:
                self._packed = kept(self._packed)
            return self._jvm.start(self._packed)
        finally:
            self._watcher.preparing("")

    def _is_over(self, running: Future[list[TableOutcome]]) -> bool:
        """Waits for an event or a turn, and returns whether the load is over. After a signal, jobs
        that begin later are cancelled, too."""
        self._watcher.turn()
        with suppress(Empty):
            # With a timeout, as an item put by a signal handler may not wake the queue.
            if self._events.get(timeout=_TURN_SECONDS) is running:
                return True
            self._stopping.set()
            self._watcher.preparing("stopping")
        if self._stopping.is_set() and (spark := self._spark) is not None:
            spark.cancel_jobs()
        return False

    def _is_stopped_before(self, at: float) -> bool:
        while (seconds := at - time.time()) > 0:
            with suppress(Empty):
                self._events.get(timeout=min(seconds, _TURN_SECONDS))
                return True
        return False


def listen_for_signals(events: SimpleQueue[Any]) -> None:
    signal_numbers = (signal.SIGTERM, signal.SIGINT)

    def take(number: int, _: FrameType | None) -> None:
        events.put(number)
        for signal_number in signal_numbers:
            signal.signal(signal_number, signal.SIG_DFL)  # the next one ends the process

    for signal_number in signal_numbers:
        signal.signal(signal_number, take)
