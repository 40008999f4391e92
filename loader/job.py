"""The Spark job: every slice read by a task, its files staged where the store is.

Tasks give pieces of finished files (loader/landing/), and Spark's text writer carries them: with
Spark's own commit of tasks, so that of several attempts one counts, and with the filesystem's own
credentials. What that writer puts between two lines is, here, the end of every Parquet file; see
docs/decisions/0021-pieces-of-parquet.md.
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
from loader.environment.failures import environment_failure
from loader.errors import DamagedBatch, GapError, LoaderError, Mismatch, SparkFailed, TooManyHours
from loader.landing.pieces import PIECE_END
from loader.task_spec import LandingJob

FOLDERS: Final = ("kind", "slice", "dt", "hour")
SOURCE: Final = "penstock_landing"
POLL_SECONDS: Final = 0.5

# Behind the indented lines of a Python trace comes what was raised.
_RAISED: Final = re.compile(r"^Traceback .*\n(?:[ \t].*\n|\n)*(\S.*)$", re.MULTILINE)


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
