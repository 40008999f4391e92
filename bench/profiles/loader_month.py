"""The cost of hourly loads on a table's first day and on later ones: what grows with its age.

The profile runs once. `--hourly-topics` and `--hourly-hours` make it shorter.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.figures.measurement import Figure, NotMeasured, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.hourly_loads import Day, HourlyLoads, Place
from harness.hadoop.hadoop import HDFS_JARS
from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.s3 import RunningS3, s3a_jars, why_no_s3a

# The name of a figure, its decimals, and its value for a day's loads of so many tables.
_FIGURES: Final[tuple[tuple[str, int, Callable[[Day, int], float]], ...]] = (
    ("seconds of a load", 2, lambda day, _: day.seconds),
    ("calls of a load", 0, lambda day, _: day.calls.total() / day.loads),
    ("calls of a table's load", 1, lambda day, topics: day.calls.total() / day.loads / topics),
    ("driver's peak RSS, MB", 0, lambda day, _: day.driver_bytes / 1e6),
    ("files", 0, lambda day, _: day.files),
    ("folders", 0, lambda day, _: day.folders),
    ("MB of manifests and other state", 2, lambda day, _: day.state_bytes / 1e6),
)
_MOST_KINDS: Final = 12  # of calls that are shown


@contextmanager
def _hdfs(home: Path) -> Iterator[Place]:
    if HDFS_JARS.classpath is None:
        raise NotMeasured(HDFS_JARS.why_not)
    with RunningHdfs(home, heap="512m") as hdfs:
        yield Place(f"{hdfs.uri}/logs", dict(hdfs.configuration), (), hdfs.namenode.calls)


@contextmanager
def _s3(home: Path) -> Iterator[Place]:
    jars = s3a_jars()
    if jars is None:
        raise NotMeasured(why_no_s3a())
    home.mkdir()
    with RunningS3(home) as s3:
        yield Place(f"{s3.uri}/logs-{s3.port}", s3.configuration, tuple(jars), s3.requests)


def _month(place: Callable[[Path], AbstractContextManager[Place]], context: CaseContext) -> Sample:
    loads, scale = context.server, context.scale
    assert isinstance(loads, HourlyLoads)
    topics = scale.hourly_topics
    sample: dict[Figure, float] = {}
    with place(loads.home / place.__name__) as store:
        for day in loads.days(store, topics, scale.hourly_hours):
            figures = _figures(day, topics)
            # A month takes hours: what is known is shown, should the rest be cut short.
            for figure, value in figures.items():
                print(f"    {figure.name}: {figure.text(value)}", file=sys.stderr, flush=True)
            sample |= figures
    return sample


def _figures(day: Day, topics: int) -> Sample:
    figures = {
        Figure(f"day {day.number}: {name}", decimals): figure(day, topics)
        for name, decimals, figure in _FIGURES
    }
    for kind, count in day.calls.most_common(_MOST_KINDS):
        name = f"day {day.number}: {kind} of a table's load"
        figures[Figure(name, 1)] = count / day.loads / topics
    return figures


PROFILE: Final = Profile(
    "loader-month",
    "topics of two partitions, each loaded once an hour with 100 events of 200 bytes, and closed",
    (Case("HDFS", partial(_month, _hdfs)), Case("S3", partial(_month, _s3))),
    once=True,
)
