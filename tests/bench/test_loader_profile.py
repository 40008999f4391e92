"""The profile of the loader: chosen by its name, and run from end to end with few events."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.figures.measurement import Figure
from bench.figures.profile import QUICK
from bench.figures.rounds import measure
from bench.loads.hourly_loads import hourly_loads
from bench.loads.topic_loads import topic_loads
from bench.profiles import PROFILES
from bench.profiles.loader import FILES, ROWS_PER_SECOND, WORKER
from bench.profiles.loader_topics import FILES as TOPIC_FILES
from bench.profiles.loader_topics import SECONDS
from bench.servers.brokers import PENSTOCK
from bench.servers.loaders import loaders
from harness.hadoop.spark_jvm import quick_java

pytestmark = pytest.mark.long

_FEW = replace(QUICK, rows=16_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_penstock_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not how fast it is, but that it is measured: a JVM that is soon there.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", quick_java())
    with loaders(tmp_path, None) as kinds:
        results = measure(
            PROFILES["loader"], kinds, _FEW, rounds=1, directory=tmp_path, files=tmp_path
        )
    samples: list[Mapping[Figure, float]] = []
    for outcome in results.outcomes.values():
        assert outcome.failure is None
        samples += outcome.samples
    assert list(results.brokers) == [PENSTOCK]
    assert [sample[FILES] for sample in samples] == [8, 1, 1]
    for sample in samples:
        assert all(value > 0 for value in sample.values()), sample
        assert ROWS_PER_SECOND in sample
        assert WORKER in sample
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_topics_are_measured(tmp_path: Path) -> None:
    """But for the case that is Spark's."""
    kinds, few = {PENSTOCK: topic_loads}, replace(QUICK, topics=2)
    profile = PROFILES["loader-topics"]
    without_spark = replace(profile, cases=profile.cases[:-1])
    results = measure(without_spark, kinds, few, rounds=1, directory=tmp_path, files=tmp_path)
    samples: list[Mapping[Figure, float]] = []
    for outcome in results.outcomes.values():
        assert outcome.failure is None
        samples += outcome.samples
    assert [sample[TOPIC_FILES] for sample in samples] == [4, 2, 48, 0, 20, 20, 2]
    assert all(sample[SECONDS] > 0 for sample in samples)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_hourly_loads_are_measured(tmp_path: Path) -> None:
    kinds, few = {PENSTOCK: hourly_loads}, replace(QUICK, hourly_topics=1, hourly_hours=25)
    results = measure(
        PROFILES["loader-month"], kinds, few, rounds=1, directory=tmp_path, files=tmp_path
    )
    for outcome in results.outcomes.values():
        assert outcome.failure is None
        (sample,) = outcome.samples
        assert all(value > 0 for value in sample.values()), sample
    assert len(results.outcomes) == 2
    assert list(tmp_path.iterdir()) == []
