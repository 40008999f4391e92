"""Statements of a program's health: what is in them, and when one is due."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ground.tls.certificate_expiry import CertificateFiles
from harness.logins.certificates import Authority
from ledger.entries import LedgerEntries
from ledger.health import (
    LONGEST_LABEL,
    LONGEST_TEXT,
    MOST_PROBLEMS,
    Certificate,
    Disk,
    Health,
    HealthProbe,
    HealthReports,
    Problem,
    ProblemKind,
    ZooKeeperSession,
)
from schemas.event_schemas import LEDGER, built_in
from tests.ledger.said import batch_of, entry

MIB = 2**20
HEALTH = Health(
    started=1,
    name="1",
    disks=(Disk("/d", 100 * MIB, 900 * MIB, 1000, 9000), Disk("/full", 1, MIB)),
    certificates=(Certificate("/c", 9),),
    zookeeper=ZooKeeperSession(connected=True, since=5, servers=3, serving=3),
    problems=(Problem(ProblemKind.REJECTED, "/a.yaml", "line 1", 7),),
)


def test_a_probe_sees_disks_and_certificates(tmp_path: Path) -> None:
    long = tmp_path / ("d" * 150) / ("e" * 150)
    long.mkdir(parents=True)
    signed = Authority(tmp_path / "ca").sign("agent")
    files = CertificateFiles(frozenset({str(signed.both), str(tmp_path / "none.pem")}))
    directories = (str(long), str(tmp_path), str(tmp_path / "none"), "/proc")
    seen = HealthProbe("0.1", name="m", directories=directories, certificates=files).health()
    disk, proc = seen.disks
    assert (len(disk.label), disk.label[0], proc.label) == (LONGEST_LABEL, "…", "/proc")
    assert (disk.total_files, proc.total_files) == (os.statvfs(tmp_path).f_files or -1, -1)
    assert (disk.total, seen.interval_millis) == (shutil.disk_usage(tmp_path).total, 600_000)
    (certificate,) = seen.certificates
    days = (certificate.ends - seen.started) / 86_400_000
    assert (certificate.label, round(days)) == (str(signed.both), 30)


@pytest.mark.parametrize(
    ("change", "is_due"),
    [
        ({}, False),
        ({"program_version": "2", "interval_millis": 5}, False),
        ({"disks": (Disk("/d", 51 * MIB, 900 * MIB, 501, 9000), Disk("/full", MIB, MIB))}, False),
        ({"disks": (Disk("/d", 50 * MIB, 900 * MIB, 999, 9000), Disk("/full", 1, MIB))}, True),
        ({"disks": (Disk("/d", 99 * MIB, 900 * MIB, 500, 9000), Disk("/full", 1, MIB))}, True),
        ({"disks": (Disk("/d", 200 * MIB, 900 * MIB, 999, 9000), Disk("/full", 1, MIB))}, True),
        ({"disks": ()}, True),
        ({"certificates": (Certificate("/c", 10),)}, True),
        ({"zookeeper": ZooKeeperSession(connected=False, since=6)}, True),
        ({"started": 2}, True),
        ({"problems": ()}, True),
        ({"problems": (Problem(ProblemKind.REJECTED, "/a.yaml", "line 2", 7),)}, False),
    ],
)
def test_a_statement_is_due_when_something_changes_notably(
    change: dict[str, Any], is_due: bool
) -> None:
    now = [0.0]
    reports = HealthReports(600.0, lambda: now[0])
    assert reports.is_due(HEALTH), "at the start"
    reports.reported(HEALTH)
    now[0] = 29.9
    assert reports.is_due(replace(HEALTH, **change)) == is_due
    now[0] = 599.9
    assert reports.is_due(replace(HEALTH, **change)) == (is_due or "problems" in change)
    now[0] = 600.0
    assert reports.is_due(HEALTH), "in any case after a while"


def test_many_problems_and_long_ones_are_cut() -> None:
    problem = Problem(ProblemKind.UNREADABLE, "/" + "d" * 999, "no\n" * 999, 5)
    few = HealthProbe("0.1").health(problems=[problem] * MOST_PROBLEMS).problems
    more = HealthProbe("0.1").health(problems=[problem] * (MOST_PROBLEMS + 1)).problems
    assert (len(few), few[:-1]) == (MOST_PROBLEMS, more[:-1])
    assert (len(few[0].subject), len(few[0].text)) == (LONGEST_LABEL, LONGEST_TEXT)
    assert few[0].text.isprintable()
    assert more[-1] == Problem(ProblemKind.OTHER, "", "2 more problems", 5)


def test_statements_come_back_as_they_were_written() -> None:
    statements = [HEALTH, Health(started=2)]
    entries = LedgerEntries({7: built_in(LEDGER)}.get)
    written = [entry("a1", seq, health=[each.json]) for seq, each in enumerate(statements * 20)]
    entries.add(batch_of(written))
    read = entries.take().body.field("health").to_pylist()
    assert read == [each["health"] for each in written]
    assert entries.left_out == 0
