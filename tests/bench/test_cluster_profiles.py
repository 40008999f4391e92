"""The profiles of clusters: three brokers, from end to end in small sizes, and nothing is left."""

import array
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.figures.measurement import Figure
from bench.figures.profile import QUICK
from bench.figures.rounds import measure
from bench.loads.acknowledged_load import Acknowledged
from bench.loads.librdkafka import Incomplete
from bench.profiles import PROFILES
from bench.servers.broker_clusters import CLUSTERS
from bench.servers.brokers import APACHE_KAFKA, PENSTOCK
from harness.kafka.apache_kafka import COMPILED_ONCE, kafka_classpath, why_no_kafka

_NAMES = ["cluster-produce", "cluster-latency", "cluster-partitions", "cluster-catch-up"]
_FEW = replace(QUICK, replicated_messages=9_000, partitions=6, missed_bytes=2_000_000)

Samples = dict[str, Mapping[Figure, float]]


def _samples(directory: Path, kind: str, profile: str, *only: str) -> Samples:
    """Of the only round, by case."""
    files = directory / "files"
    files.mkdir(exist_ok=True)
    work = directory / "work"
    work.mkdir(exist_ok=True)
    kinds = {kind: CLUSTERS[kind]}
    results = measure(
        PROFILES[profile], kinds, _FEW, rounds=1, directory=work, files=files, only=only
    )
    samples: Samples = {}
    for (case, _), outcome in results.outcomes.items():
        assert outcome.failure is None, case
        (samples[case],) = outcome.samples
        assert all(value >= 0 for value in samples[case].values()), case
    assert list(work.iterdir()) == []
    return samples


def test_what_was_due_in_a_time_is_counted_and_nothing_else() -> None:
    pairs = array.array("q", (10, 3_000_000, 20, 1_000_000, 30, 2_000_000, 40, 9_000_000))
    done = Acknowledged(pairs, pairs)
    assert list(done.latencies(20, 40).sorted) == [1_000_000, 2_000_000]
    assert done.lateness(0, 50).milliseconds(1) == 9
    with pytest.raises(Incomplete):
        done.latencies(50, 60)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("profile", _NAMES)
def test_penstock_is_measured(tmp_path: Path, profile: str) -> None:
    samples = _samples(tmp_path, PENSTOCK, profile)
    assert len(samples) == len(PROFILES[profile].cases)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("profile", "case"),
    [("cluster-produce", "fifty, Apache"), ("cluster-partitions", "controller")],
)
def test_apache_kafka_is_measured(
    tmp_path: Path, profile: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", COMPILED_ONCE)  # not how fast it is: that it is measured
    assert len(_samples(tmp_path, APACHE_KAFKA, profile, case)) == 1
