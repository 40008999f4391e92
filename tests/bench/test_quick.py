"""The benchmarks run from end to end in seconds, on the real brokers, and leave nothing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.profiles import PROFILES, Measured, measured_by
from bench.servers.brokers import APACHE_KAFKA, PENSTOCK
from harness.kafka.apache_kafka import COMPILED_ONCE, kafka_classpath, why_no_kafka

REPOSITORY = Path(__file__).parents[2]


def _bench(directory: Path, *arguments: str) -> dict[str, dict[str, object]]:
    """The profiles of the JSON that a quick run writes."""
    written = directory.parent / "samples.json"
    run = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "--quick"),
            *("--json", str(written), "--directory", str(directory)),
            *arguments,
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(directory.iterdir()) == []
    profiles = json.loads(written.read_text())["profiles"]
    assert isinstance(profiles, dict)
    return profiles


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "disk"
    made.mkdir()
    return made


def _nothing_failed(profiles: dict[str, dict[str, object]], broker: str) -> None:
    for name, profile in profiles.items():
        cases = profile["cases"]
        assert isinstance(cases, dict)
        for case in cases.values():
            assert case[broker]["failure"] is None, name
            assert len(case[broker]["samples"]) == 1, name
            assert all(value >= 0 for value in case[broker]["samples"][0].values()), name


# The cases of produce-50 in other sizes; and what is measured in test_registry_profiles.py,
# test_agent_profiles.py, test_loader_profile.py, test_audit_profile.py and
# test_cluster_profiles.py.
ELSEWHERE = {Measured.AGENTS, Measured.LOADERS, Measured.AUDITS, Measured.CLUSTERS}
OF_THOSE = {name for name in PROFILES if measured_by(name) in ELSEWHERE}
ALIKE = {"produce-1", "produce-1mb", "registry-reads", "registry-writes"} | OF_THOSE


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_kind_of_profile_runs_on_penstock(directory: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    names = [name for name in PROFILES if name not in ALIKE]
    assert len(names) == len(PROFILES) - len(ALIKE)
    profiles = _bench(directory, *names, "--broker", PENSTOCK)
    assert list(profiles) == names
    _nothing_failed(profiles, PENSTOCK)


@pytest.mark.slow
@pytest.mark.long
def test_apache_kafka_can_be_measured(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    # Not how fast it is, but that it is measured: code that is compiled once.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", COMPILED_ONCE)
    names = ["produce-50", "logins", "acls"]  # one of each way in which it is started
    some = [word for case in ("acks=0", "TLS 1.3", "fetch") for word in ("--case", case)]
    profiles = _bench(directory, *names, *some, "--broker", APACHE_KAFKA)
    assert list(profiles) == names
    _nothing_failed(profiles, APACHE_KAFKA)


@pytest.mark.not_quick("starts a process")
def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench", "produce-2"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 2
    assert "unknown profile 'produce-2'; available: produce-1, produce-50" in run.stderr
