"""Two minutes of `make soak`: it ends, right; has sampled everything; and leaves nothing behind.

Nothing can be said of growth by then; `make soak` goes on from there.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cluster_pipeline.commanded import REPOSITORY
from tests.soak.flatness import Kind
from tests.soak.sampling import read

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]


def test_a_soak_of_minutes(tmp_path: Path) -> None:
    results = tmp_path / "results"
    before = set(Path(tempfile.gettempdir()).glob("soak-*"))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "tests.soak", "--hours", "0.035"),
            *("--results", str(results)),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert set(Path(tempfile.gettempdir()).glob("soak-*")) <= before
    assert {each.name for each in results.iterdir()} == {
        *("samples.csv", "troubles.csv", "run.json", "verdict.md", "soak.svg", "programs")
    }
    series = read(results / "samples.csv")
    assert {each.kind for each in series} == set(Kind)
    assert {each.name for each in series if not all(one.value for one in each.points)} <= {
        # Nothing was forgotten, loaded or watched when it began.
        *(each.name for each in series if each.kind in {Kind.STATE, Kind.LOGS}),
        "machine load",
    }
    for program in ("zookeeper", "broker-1", "broker-3", "registry-2", "audit", "web-2"):
        assert any(each.name == f"{program} memory" and len(each.points) > 10 for each in series)
    again = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--judge", str(results)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stdout
    assert "right" in again.stdout
