"""The Spark job: every slice read by a task, its files staged where the store is; and why Spark
gave one up, in one line that says what to do.

Tasks give pieces of finished files (loader/landing/), and Spark's text writer carries them: with
Spark's own commit of tasks, so that of several attempts one counts, and with the filesystem's own
credentials. What that writer puts between two lines is, here, the end of every Parquet file; see
docs/decisions/0021-pieces-of-parquet.md.

Spark tells what was wrong in a trace of a hundred lines, after four attempts. The wording is that
of Spark 4; a test has Spark say it anew.
"""

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from client.errors import OffsetsMissing
from loader.errors import (
    DamagedBatch,
    EnvironmentFailed,
    GapError,
    LoaderError,
    Mismatch,
    NoTicket,
    SparkFailed,
    TooManyHours,
)
from loader.kerberos import no_ticket
from loader.landing.pieces import PIECE_END
from loader.landing.task_spec import LandingJob

FOLDERS: Final = ("kind", "slice", "dt", "hour")
SOURCE: Final = "penstock_landing"
POLL_SECONDS: Final = 0.5
# Behind the indented lines of a Python trace comes what was raised.
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
_PLANNING: Final = re.compile(
    r"Python worker exited unexpectedly [^\n]*\n\s+at [\w.]+\.PythonPlannerRunner\."
)


def land(
    spark: SparkSession, job: LandingJob, directory: str, advanced: Callable[[int], None]
) -> None:
    """Reads all slices and stages their files in the directory. `advanced` hears of tasks done."""
    table = job.spec.table
    with working(f"{table}: landing"), watching(spark, table, advanced):
        pieces = spark.read.format(SOURCE).option("job", job.packed()).load()
        text = pieces.write.partitionBy(*FOLDERS).option("lineSep", PIECE_END)
        text.option("compression", "none").text(directory)


@contextmanager
def working(on: str) -> Iterator[None]:
    """What Spark raises is a LoaderError of one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise (environment_failure(error) or failure(on, str(error))) from error


def failure(on: str, said: str) -> LoaderError:
    """Why Spark gave up, in one line: what our code raised in a task, or Spark's first words."""
    if why := no_ticket(said):
        return NoTicket(f"{on}: {why}")
    raised = _RAISED.findall(said)
    if raised:
        kind, _, text = str(raised[-1]).partition(": ")
        if kind.endswith(OffsetsMissing.__name__):
            return GapError(text.strip())
        if kind.endswith(TooManyHours.__name__):
            return TooManyHours(text.strip())
        if kind.endswith(Mismatch.__name__):
            return Mismatch(text.strip())
        if kind.endswith(DamagedBatch.__name__):
            damaged = DamagedBatch.from_text(text.strip())
            return damaged or SparkFailed(f"{on}: {text.strip()}")
        return SparkFailed(f"{on}: {text.strip() or kind}")
    lines = (line.strip(": \t") for line in said.splitlines())
    words = (line for line in lines if line and not line.startswith("An error occurred"))
    return SparkFailed(f"{on}: {next(words, 'no reason was given')}")


@contextmanager
def watching(spark: SparkSession, table: str, advanced: Callable[[int], None]) -> Iterator[None]:
    """Tells how many tasks of the jobs are done that this thread starts within."""
    context, group = spark.sparkContext, f"{table}-{uuid.uuid4().hex}"
    context.setJobGroup(group, f"Penstock: {table}", interruptOnCancel=True)
    over = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not over.wait(POLL_SECONDS):
            stages = (
                stage
                for job in tracker.getJobIdsForGroup(group)
                if (info := tracker.getJobInfo(job)) is not None
                for stage in info.stageIds
            )
            known = (tracker.getStageInfo(stage) for stage in stages)
            advanced(sum(each.numCompletedTasks for each in known if each is not None))

    watcher = threading.Thread(target=watch, name=f"watching {table}", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", "")


def _mismatch(found: re.Match[str]) -> str:
    return (
        f"executors run Python {found['there']} and this driver runs {found['here']}: set "
        f"spark.pyspark.python to a Python {found['here']} that every executor has"
    )


def _no_interpreter(found: re.Match[str]) -> str:
    return (
        f"executors cannot start `{found['name']}` ({found['why'].strip()}): set "
        "spark.pyspark.python to an interpreter that every executor has"
    )


def _no_module(found: re.Match[str]) -> str:
    return (
        f"executors have no Python module `{found['name'] or found['package']}`: --pack-env ships "
        "what `penstock[loader]` requires, anything else must be installed for their interpreter"
    )


def _not_loaded(found: re.Match[str]) -> str:
    return (
        f"executors cannot load what this driver packed ({found['why'].strip()}): pack on a host "
        "with their processor and a C library no newer than theirs"
    )


def _planning(found: re.Match[str]) -> str:
    return (
        "the Python that executors run (spark.pyspark.python) cannot plan on this host: run with "
        "--pack-env, or install `penstock[loader]` for it here too"
    )


_KNOWN: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_MISMATCH, _mismatch),
    (_NO_INTERPRETER, _no_interpreter),
    (_NOT_LOADED, _not_loaded),
    (_NO_MODULE, _no_module),
    (_PLANNING, _planning),
)


def environment_failure(error: BaseException) -> EnvironmentFailed | None:
    """What was wrong with the executors' Python, if that is why Spark gave up."""
    said = str(error)
    for pattern, line in _KNOWN:
        if found := pattern.search(said):
            return EnvironmentFailed(line(found))
    return None
