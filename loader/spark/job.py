"""The Spark job: tasks read slices, and their files are staged in the store. Translates Spark's
errors into one line that says what to do.

Tasks return pieces of finished files (loader/landing/), which Spark's text writer stores: so
Spark's own commit protocol selects one of several attempts, and the filesystem's own credentials
apply. The writer's line separator is the end of every Parquet file; see
docs/decisions/0021-pieces-of-parquet.md.

Spark reports errors as a trace of a hundred lines, after four attempts. The patterns match Spark
4's wording; a test makes Spark produce it.
"""

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from client.errors import OffsetsMissing
from loader.errors import (
    DamagedBatch,
    EnvironmentFailed,
    GapError,
    LoaderError,
    Mismatch,
    SparkFailed,
    TooManyHours,
)
from loader.landing.pieces import PIECE_END
from loader.landing.task_spec import LandingJob
from loader.store.hadoop_errors import JVM_ENDED, hint, known_error

FOLDERS: Final = ("kind", "slice", "dt", "hour")
SOURCE: Final = "penstock_landing"
POLL_SECONDS: Final = 0.5
# The exception follows the indented lines of a Python trace.
_RAISED: Final = re.compile(r"^Traceback .*\n(?:[ \t].*\n|\n)*(\S.*)$", re.MULTILINE)
_MISMATCH: Final = re.compile(
    r"Python in worker has different version: (?P<there>[\d.]+)"
    r" than that in driver: (?P<here>[\d.]+)"
)
_NO_INTERPRETER: Final = re.compile(
    r'Cannot run program "(?P<name>[^"]+)"[^\n]*?: (?P<why>error=\d+[^\n]*)'
)
_NO_MODULE: Final = re.compile(
    r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)"
    r"|\[PACKAGE_NOT_INSTALLED\] (?P<package>\w+)"
)
_NOT_LOADED: Final = re.compile(
    r"ImportError: (?P<why>[^\n]*(?:GLIBC|shared object|ELF|undefined symbol)[^\n]*)"
)
_JAVA_TOO_NEW: Final = re.compile(r"UnsupportedOperationException: getSubject is not supported")
_PLANNING: Final = re.compile(
    r"Python worker exited unexpectedly [^\n]*\n\s+at [\w.]+\.PythonPlannerRunner\."
)


def land(
    spark: SparkSession, job: LandingJob, directory: str, advanced: Callable[[int], None]
) -> None:
    """Reads all slices and stages their files in the directory. `advanced` receives the number of
    finished tasks."""
    table = job.spec.table
    with working(f"{table}: landing"), watching(spark, table, advanced):
        pieces = spark.read.format(SOURCE).option("job", job.packed()).load()
        text = pieces.write.partitionBy(*FOLDERS).option("lineSep", PIECE_END)
        text.option("compression", "none").text(directory)


@contextmanager
def working(on: str) -> Iterator[None]:
    """Converts Spark's exceptions to a LoaderError with a one-line message."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise SparkFailed(f"{on}: {JVM_ENDED}") from error
    except (PySparkException, Py4JError) as error:
        raise (environment_failure(error) or failure(on, str(error))) from error


def failure(on: str, trace: str) -> LoaderError:
    """The error with a one-line cause: the exception of our code in a task, or Spark's first
    words."""
    if store_error := known_error(on, trace):
        return store_error
    raised_errors = _RAISED.findall(trace)
    if raised_errors:
        kind, _, text = str(raised_errors[-1]).partition(": ")
        if kind.endswith(OffsetsMissing.__name__):
            return GapError(text.strip())
        if kind.endswith(TooManyHours.__name__):
            return TooManyHours(text.strip())
        if kind.endswith(Mismatch.__name__):
            return Mismatch(text.strip())
        if kind.endswith(DamagedBatch.__name__):
            damaged_batch = DamagedBatch.from_text(text.strip())
            return damaged_batch or SparkFailed(f"{on}: {text.strip()}")
        return SparkFailed(f"{on}: {text.strip() or kind}")
    lines = (line.strip(": \t") for line in trace.splitlines())
    message_lines = (line for line in lines if line and not line.startswith("An error occurred"))
    reason = next(message_lines, "Spark gave no reason")
    return SparkFailed(f"{on}: {reason}{hint(trace)}")


@contextmanager
def watching(spark: SparkSession, table: str, advanced: Callable[[int], None]) -> Iterator[None]:
    """Reports the number of finished tasks of jobs that this thread starts within the context."""
    context, group = spark.sparkContext, f"{table}-{uuid.uuid4().hex}"
    context.setJobGroup(group, f"Penstock: {table}", interruptOnCancel=True)
    finished_event = threading.Event()

    def finished_tasks() -> int:
        tracker = context.statusTracker()
        stages = (
            stage_id
            for job in tracker.getJobIdsForGroup(group)
            if (info := tracker.getJobInfo(job)) is not None
            for stage_id in info.stageIds
        )
        stage_infos = (tracker.getStageInfo(stage_id) for stage_id in stages)
        return sum(info.numCompletedTasks for info in stage_infos if info is not None)

    def watch() -> None:
        while not finished_event.wait(POLL_SECONDS):
            try:
                tasks = finished_tasks()
            except (Py4JError, ConnectionError):
                return  # the job itself fails, too
            advanced(tasks)

    watcher = threading.Thread(target=watch, name=f"watching {table}", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished_event.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", "")


def _mismatch(match: re.Match[str]) -> str:
    return (
        f"executors run Python {match['there']}, but this driver runs {match['here']}: set "
        f"spark.pyspark.python to a Python {match['here']} that every executor has"
    )


def _no_interpreter(match: re.Match[str]) -> str:
    return (
        f"executors cannot start `{match['name']}` ({match['why'].strip()}): set "
        "spark.pyspark.python to an interpreter that every executor has"
    )


def _no_module(match: re.Match[str]) -> str:
    return (
        f"executors have no Python module `{match['name'] or match['package']}`: --pack-env ships "
        "what the extra `loader` requires, anything else must be installed for their interpreter"
    )


def _not_loaded(match: re.Match[str]) -> str:
    return (
        f"executors cannot load what this driver packed ({match['why'].strip()}): pack on a host "
        "with their processor and a C library no newer than theirs"
    )


def _java_too_new(match: re.Match[str]) -> str:
    return (
        "the Hadoop client of PySpark 4.1 does not run on Java 24 or later: use Java 17 or 21, or"
        " PySpark 4.2 or later"
    )


def _planning(match: re.Match[str]) -> str:
    return (
        "the Python that executors run (spark.pyspark.python) cannot plan on this host: run with "
        "--pack-env, or install Penstock with the extra `loader` for it here too"
    )


_KNOWN: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_MISMATCH, _mismatch),
    (_NO_INTERPRETER, _no_interpreter),
    (_NOT_LOADED, _not_loaded),
    (_NO_MODULE, _no_module),
    (_JAVA_TOO_NEW, _java_too_new),
    (_PLANNING, _planning),
)


def environment_failure(error: BaseException) -> EnvironmentFailed | None:
    """The error in the executors' Python, if that is why Spark failed."""
    trace = str(error)
    for pattern, line in _KNOWN:
        if match := pattern.search(trace):
            return EnvironmentFailed(line(match))
    return None
