"""A measurement of the kernel alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROW = re.compile(r"^\| (\d+) MB \| (\w+) \| ([\d,]+) \(.*\) \| \d+\.\d\d \(", re.MULTILINE)


@pytest.mark.long
@pytest.mark.not_quick("measures: eight gigabytes")
def test_every_case_is_measured(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench.bare_sendfile", "--rounds=1", f"--directory={tmp_path}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    rows = ROW.findall(run.stdout)
    assert {(size, control) for size, control, _ in rows} >= {("1", "reno"), ("50", "reno")}
    assert all(int(rate.replace(",", "")) > 0 for _, _, rate in rows)
