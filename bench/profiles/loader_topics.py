"""The cost of one `penstock load` of many small topics, from its start to its exit.

One case uses Spark for all of them, for comparison.
"""

from functools import partial

from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.topic_loads import TopicLoads, TopicsLoaded
from bench.spark.driver_commands import Json
from harness.processes.server_process import ServerFailed

SECONDS = Figure("seconds", 1)
_CPU = Figure("CPU-s", 1)
_PEAK = Figure("peak RSS of a process, MB")
FILES = Figure("files")

_NEVER = 1e12  # seconds
_OPEN: Json = {"completeness": {"settle": _NEVER, "deadline": _NEVER}}
# The hours with rows are long over; the recent hours are empty and stay open.
_CLOSED: Json = {"completeness": {"settle": 72 * 3600.0, "deadline": _NEVER}}
_BY_SPARK: Json = {**_OPEN, "tasks": {"without_spark": 0}}
_MANY = 10  # partitions
_FAST = (Goal(SECONDS, at_most=30), Goal(_PEAK, at_most=1_000))
_SHARE_OF_SPARK = 10  # a tenth of the topics


def _loads(context: CaseContext) -> TopicLoads:
    assert isinstance(context.server, TopicLoads)
    return context.server


def _load(
    context: CaseContext,
    *,
    settings: Json = _OPEN,
    hours: int = 1,
    share: int = 1,
    spark: bool = False,
) -> Sample:
    loads, topics = _loads(context), max(1, context.scale.topics // share)
    result = loads.load(loads.topics(topics, hours), topics, settings)
    if result.spark != spark:
        raise ServerFailed("Spark was started" if result.spark else "Spark was not started")
    if settings is _CLOSED and not result.files == result.closed == topics * hours:
        raise ServerFailed(f"{result.closed} hours are closed, with {result.files} files")
    return _cost(result)


def _planned(context: CaseContext) -> Sample:
    loads, topics = _loads(context), context.scale.topics
    return _cost(loads.plan(loads.topics(topics, 1, _MANY)))


def _loaded(context: CaseContext, *, again: bool) -> Sample:
    loads, topics = _loads(context), context.scale.topics
    return _cost(loads.load(loads.topics(topics, 1, _MANY), topics, _OPEN, again=again))


def _cost(result: TopicsLoaded) -> Sample:
    return {
        SECONDS: result.seconds,
        _CPU: result.cpu_seconds,
        _PEAK: result.peak_bytes / 1e6,
        FILES: result.files,
    }


PROFILE = Profile(
    "loader-topics",
    "topics of two partitions with 1,000 events of 200 bytes, by one `penstock load`",
    (
        Case("an hour in each", _load, (Goal(SECONDS, at_most=60),)),
        Case(
            "an hour in each, closed and merged",
            partial(_load, settings=_CLOSED),
            (Goal(SECONDS, at_most=60),),
        ),
        Case(
            "a day of hours in each, closed and merged", partial(_load, settings=_CLOSED, hours=24)
        ),
        Case("ten partitions in each, only planned", _planned, _FAST),
        Case("ten partitions in each, loaded", partial(_loaded, again=False)),
        Case("ten partitions in each, nothing new", partial(_loaded, again=True), _FAST),
        Case("a tenth of them, an hour in each", partial(_load, share=_SHARE_OF_SPARK)),
        Case(
            "the same tenth, all by Spark",
            partial(_load, settings=_BY_SPARK, share=_SHARE_OF_SPARK, spark=True),
        ),
    ),
)
