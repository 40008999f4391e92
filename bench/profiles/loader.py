"""The speed of loading events from a broker into Parquet files: from one partition per source, and
from one for all.

The clock runs from the start of the load until everything is committed and visible. Both loaders
share the two cores with the broker. The rows in the files are counted at the end.
"""

from typing import Final

from bench.figures.measurement import Figure, Goal, NotMeasured, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.servers.brokers import PENSTOCK
from bench.servers.loaders import Loaded, LoaderCase, loader_of, topics_of
from harness.processes.server_process import ServerFailed

ROWS_PER_SECOND: Final = Figure("rows/s", more_is_better=True)
_CPU: Final = Figure("CPU-s per million rows", 2)
_BYTES: Final = Figure("bytes of files per row", 1)
FILES: Final = Figure("files")
_JVM: Final = Figure("JVM's peak RSS, MB")
_WORKERS: Final = Figure("workers' peak RSS, MB")
WORKER: Final = Figure("largest worker's, MB")
_ALL: Final = Figure("peak RSS in all, MB")

_NEVER: Final = 1e12  # seconds
_OPEN: Final = {"completeness": {"settle": _NEVER, "deadline": _NEVER}}
_CLOSED: Final = {"completeness": {"settle": 0.0}}


def _sample(rows: int, result: Loaded) -> Sample:
    peaks = result.peaks
    workers = {_WORKERS: peaks.workers / 1e6, WORKER: peaks.worker / 1e6}
    return {
        ROWS_PER_SECOND: rows / result.seconds,
        _CPU: result.cpu_seconds / rows * 1e6,
        _BYTES: result.bytes / rows,
        FILES: result.files,
        _JVM: peaks.jvm / 1e6,
        **(workers if peaks.workers else {}),
        _ALL: peaks.everything / 1e6,
    }


def _left_open(context: CaseContext) -> Sample:
    rows = context.scale.rows
    return _sample(
        rows, loader_of(context).load(LoaderCase(topics_of(context).spread, rows, _OPEN))
    )


def _closed(context: CaseContext) -> Sample:
    if context.server.name != PENSTOCK:
        raise NotMeasured("Spark's Kafka source closes no hours")
    rows = context.scale.rows
    result = loader_of(context).load(LoaderCase(topics_of(context).spread, rows, _CLOSED))
    if not result.files == result.closed == result.hours:
        closed_hours = f"{result.closed} of {result.hours} hours"
        raise ServerFailed(f"{closed_hours} are closed, with {result.files} files")
    return _sample(rows, result)


def _single(context: CaseContext) -> Sample:
    rows = context.scale.rows
    one_task_settings = {**_OPEN, "tasks": {"records": rows + 1}}
    return _sample(
        rows,
        loader_of(context).load(LoaderCase(topics_of(context).single, rows, one_task_settings)),
    )


PROFILE: Final = Profile(
    "loader",
    "events of 200 bytes, a schema of 12 fields, from a broker to Parquet in local[2]",
    (
        Case(
            "8 partitions, hours left open",
            _left_open,
            (Goal(ROWS_PER_SECOND, at_least=600_000, ahead=True, times=2),),
        ),
        Case(
            "8 partitions, hours closed and merged",
            _closed,
            (Goal(ROWS_PER_SECOND, at_least=600_000),),
        ),
        Case(
            "one partition, in one task",
            _single,
            (Goal(WORKER, at_most=600),),
        ),
    ),
)
