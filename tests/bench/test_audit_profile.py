"""The profiles of the audit: chosen by their name, and run from end to end with a small fleet."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.figures.measurement import Figure
from bench.figures.profile import QUICK, ServerKind
from bench.figures.rounds import measure
from bench.ledger_folding import folders
from bench.profiles import PROFILES
from bench.profiles.audit import (
    DATABASE,
    ENTRIES,
    ENTRIES_PER_SECOND,
    IN_STORE,
    MEDIAN,
    PEAK,
    READY,
    SEEN,
    WEEK,
)
from bench.servers.audit_services import AUDITS

pytestmark = pytest.mark.long

_TINY = replace(QUICK, agents=10, agents_topics=2, told_minutes=60, kept_hours=2, questions=1)

Samples = Mapping[tuple[str, str], Mapping[Figure, float]]


def _run(profile: str, kinds: Mapping[str, ServerKind], directory: Path, *only: str) -> Samples:
    disk, files = directory / "disk", directory / "files"
    disk.mkdir()
    files.mkdir()
    results = measure(
        PROFILES[profile], kinds, _TINY, rounds=1, directory=disk, files=files, only=only
    )
    assert list(disk.iterdir()) == []
    samples = {}
    for where, outcome in results.outcomes.items():
        assert outcome.failure is None, where
        (samples[where],) = outcome.samples
    return samples


@pytest.mark.not_quick("runs a benchmark")
def test_folding_is_measured_beside_row_by_row(tmp_path: Path) -> None:
    ours, rows = _run("audit-folding", folders(beside=True), tmp_path).values()
    assert ours[ENTRIES] == 60 * (10 + 3) + 2  # agents, brokers, and an entry for each topic
    assert rows[ENTRIES] == 3 * (10 + 3)
    assert ours[IN_STORE] > ours[ENTRIES_PER_SECOND] > 0


@pytest.mark.not_quick("runs a benchmark")
def test_the_service_is_measured(tmp_path: Path) -> None:
    cases = ("read anew", "kept hours", "topic, a day", "report of all", "a minute", "memory")
    samples = _run("audit-service", AUDITS, tmp_path, *cases)
    anew, kept, *pages, heard, memory = samples.values()
    assert anew[ENTRIES] == 60 * (10 + 3) + 2
    assert anew[READY] > 0
    assert kept[DATABASE] > 0
    assert kept[WEEK] > 0
    assert [page[MEDIAN] > 0 for page in pages] == [True] * 3
    assert heard[SEEN] > 0
    assert memory[PEAK] > 1
