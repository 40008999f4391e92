"""What the agent may read of applications: given by ACL, and taken back as if it had never been."""

import json
import os
import pwd
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from harness.hosts.simulated_hosts import COLLECTION

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="files are root's"),
]

ACCESS: Final = "system.posix_acl_access"
DEFAULT: Final = "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 1, 2, 4, 16, 32
NOBODY: Final = 0xFFFFFFFF
READER: Final = "daemon"
SOMEBODY: Final = "bin"
EVERYTHING: Final = {"every": True, "state": "absent"}

MODULE: Final = COLLECTION / "plugins" / "modules" / "readable.py"

Allow = Callable[..., bool]
Reads = Callable[[str, Path], bool]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    tmp_path.chmod(0o711)
    logs = tmp_path / "logs"
    made_directory(logs / "old")
    logs.chmod(0o750)
    return logs


@pytest.fixture
def allow(records: Path, tmp_path: Path) -> Allow:
    """Runs the module, as Ansible does on a host; whether it changed anything."""

    def run(*, check: bool = False, **given: object) -> bool:
        given |= {"user": READER, "records": str(records), "_ansible_check_mode": check}
        arguments = tmp_path / "arguments.json"
        arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": given}, default=str))
        command = [sys.executable, str(MODULE), str(arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        changed: bool = json.loads(ended.stdout)["changed"]
        return changed

    return run


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def reads(tmp_path: Path) -> Reads:
    """Whether somebody can, from the test's folder on: those above it are for root alone."""

    def ask(who: str, path: Path) -> bool:
        user = [f"--reuid={who}", f"--regid={who}", "--clear-groups"]
        command = ["setpriv", *user, "cat", str(path.relative_to(tmp_path))]
        asked = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        return asked.returncode == 0

    return ask


def test_logs_become_readable_by_acl_and_are_so_no_more(
    allow: Allow, reads: Reads, logs: Path
) -> None:
    secret = logs.parent / "secret"
    secret.write_text("not a log\n")
    secret.chmod(0o600)
    (logs / "link").symlink_to(secret)
    first, later = logs / "old/a.log", logs / "old/b.log"
    write(first)
    assert not reads(READER, first)

    shop = {"name": "shop", "directories": [logs]}
    assert allow(**shop, check=True)
    assert not reads(READER, first)
    assert allow(**shop)
    write(later)
    assert (reads(READER, first), reads(READER, later)) == (True, True)
    assert not reads(READER, secret)
    assert not allow(**shop)
    assert first.stat().st_mode & 0o7 == 0
    assert allow(name="shop", state="absent", check=True)
    assert reads(READER, first)
    assert allow(name="shop", state="absent")
    assert (reads(READER, first), reads(READER, later)) == (False, False)
    assert not allow(name="shop", state="absent")


def test_everything_is_taken_back_and_nothing_that_others_gave(
    allow: Allow, reads: Reads, logs: Path, records: Path
) -> None:
    write(logs / "plain.log")
    write(logs / "own.log", 0o600)
    write(logs / "given.log")
    give(logs / "given.log", ACCESS, {READER: 4, SOMEBODY: 6}, mask=6)
    masked = logs / "masked.log"
    write(masked)
    give(masked, ACCESS, {SOMEBODY: 4}, mask=0)
    theirs, templates = logs / "theirs", logs / "templates"
    for each in (theirs, templates):
        made_directory(each)
        give(each, ACCESS, {READER: 1, SOMEBODY: 5}, mask=5)
    give(theirs, DEFAULT, {READER: 4}, mask=5)
    os.setxattr(templates, DEFAULT, packed({}, None))
    write(theirs / "early.log")
    os.removexattr(theirs / "early.log", ACCESS)
    before = {each: rights(each) for each in (logs, *logs.rglob("*"))}

    shop = {"name": "shop", "directories": [logs]}
    allow(**shop)
    assert reads(READER, logs / "own.log")
    assert not reads(SOMEBODY, masked)
    made_directory(logs / "new")
    for folder in ("new", "theirs", "templates"):
        write(logs / folder / "later.log")
    assert not allow(**shop)
    assert allow(**EVERYTHING)

    assert {each: rights(each) for each in before} == before
    mine = pwd.getpwnam(READER).pw_uid
    assert DEFAULT not in os.listxattr(logs / "new")
    assert os.listxattr(logs / "new/later.log") == []
    assert mine not in entries(logs / "templates/later.log")
    assert reads(READER, theirs / "later.log") is False  # nobody lets it into the directory
    assert entries(theirs / "later.log")[mine] & 4
    assert not records.exists()
    assert not allow(**EVERYTHING)


def test_what_is_not_named_any_more_is_taken_back_but_not_from_another_application(
    allow: Allow, logs: Path, records: Path
) -> None:
    places = {"all": logs / "all.log", "old": logs / "old/a.log", "more": logs / "more/a.log"}
    made_directory(logs / "more")
    for each in places.values():
        write(each)
    before = {each: rights(each) for each in (logs, *logs.rglob("*"))}

    def may_read() -> set[str]:
        return {name for name, path in places.items() if READER in entries_by_name(path)}

    allow(name="shop", directories=[logs])
    allow(name="bills", directories=[logs / "old", logs / "more"])
    assert json.loads((records / "bills.json").read_text())["directories"].keys() == {
        str(logs / "old"),
        str(logs / "more"),
    }
    allow(name="shop", state="absent")
    assert may_read() == {"old", "more"}
    allow(name="bills", directories=[logs / "more"])
    assert may_read() == {"more"}
    allow(name="shop", directories=[logs])
    allow(name="bills", state="absent")
    assert may_read() == {"all", "old", "more"}
    allow(**EVERYTHING)
    assert {each: rights(each) for each in before} == before


def made_directory(path: Path) -> None:
    path.mkdir(parents=True)
    path.chmod(0o750)


def write(log: Path, mode: int = 0o640) -> None:
    log.write_text("line\n")
    log.chmod(mode)


def packed(users: dict[str, int], mask: int | None) -> bytes:
    """An ACL of an owner who may everything, a group that may read, and these users."""
    rows = [(USER_OBJ, 7, NOBODY), (GROUP_OBJ, 4, NOBODY), (OTHER, 0, NOBODY)]
    rows += [(USER, may, pwd.getpwnam(name).pw_uid) for name, may in users.items()]
    rows += [] if mask is None else [(MASK, mask, NOBODY)]
    rows.sort(key=lambda row: (row[0], row[2]))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def give(path: Path, kind: str, users: dict[str, int], *, mask: int) -> None:
    os.setxattr(path, kind, packed(users, mask))


def entries(path: Path) -> dict[int, int]:
    """What users may by entries of their own."""
    if ACCESS not in os.listxattr(path):
        return {}
    rows = struct.iter_unpack("<HHI", os.getxattr(path, ACCESS)[4:])
    return {who: may for tag, may, who in rows if tag == USER}


def entries_by_name(path: Path) -> set[str]:
    return {pwd.getpwuid(who).pw_name for who in entries(path)}


def rights(path: Path) -> tuple[int, dict[str, bytes]]:
    """Mode and ACLs. An entry counts as far as its mask lets it."""
    found = {}
    for kind in os.listxattr(path):
        raw = os.getxattr(path, kind)
        rows = list(struct.iter_unpack("<HHI", raw[4:]))
        mask = next((may for tag, may, _ in rows if tag == MASK), 7)
        is_masked = {USER, GROUP_OBJ}
        counted = [(tag, may & mask if tag in is_masked else may, who) for tag, may, who in rows]
        found[kind] = repr([row for row in counted if row[0] != MASK]).encode()
    # The bits of the group are the mask's where there is one.
    return path.stat().st_mode & (0o707 if ACCESS in found else 0o777), found
