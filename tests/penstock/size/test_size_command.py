"""`penstock size`, as a person and as a program reads it."""

import json

import pytest

from tests.penstock.running import penstock

ASKED = ("size", "--hosts", "1000", "--per-day", "300GB", "--days", "7")


def test_a_person_sees_what_is_needed() -> None:
    ended = penstock(*ASKED)
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [line.split()[0] for line in ended.stdout.splitlines() if line.strip()]
    for program in ("agent", "broker", "registry", "zookeeper", "loader", "audit"):
        assert program in rows
    assert "mirror" not in rows
    assert "2.1 TB in 3 copies, 7 days" in ended.stdout


def test_a_program_reads_the_same() -> None:
    document = json.loads(penstock(*ASKED, "--mirror", "--json").stdout)
    assert document["site"]["bytes_a_day"] == 300e9
    needs = {each["program"]: each for each in document["needs"]}
    assert needs["agent"]["count"] == 1000
    assert needs["mirror"]["out_mb_s"] == document["wire_mb_s"]
    assert needs["audit"]["disk_gb"] is None


@pytest.mark.parametrize("size", ["300", "GB", "0GB", "-1GB", "1e9GB", "9999999999PB", "nan GB"])
def test_what_is_no_size_is_said(size: str) -> None:
    ended = penstock("size", "--hosts", "1", f"--per-day={size}")
    assert ended.returncode == 2
    assert f"{size!r} is no size like 300GB" in ended.stderr


def test_loads_without_an_interval() -> None:
    assert "--every must be" in penstock(*ASKED, "--every", "0s").stderr
