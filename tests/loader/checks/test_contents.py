"""Files whose size and rows are right, and whose bytes are not."""

import os
from pathlib import Path

import msgspec

from loader.checks.checking import Checked, from_bytes, state_path, to_bytes
from loader.checks.comparing import IN_TURN_MILLIS, CommittedFile, is_other, looked_at, to_look_at
from loader.manifests import Added
from loader.store.store import Entry
from loader.tables import HOUR_MILLIS
from tests.loader.checks.tables import NOW, TABLE, Table, added, hour, lines, path


def flip(file: Path, *, untouched: bool = False) -> None:
    """A byte of the first line: as many rows as before, one of them another."""
    stat = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"R")
    if untouched:  # as a disk does it
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def committed(root: Path, *names: str) -> Table:
    table = Table(root)
    adds = [added(hour(1), name, 10) for name in names]
    table.commit([with_checksum(table, each) for each in adds])
    return table


def with_checksum(table: Table, each: Added) -> Added:
    """As of what it will hold."""
    table.write(each.path, lines(each.rows))
    return msgspec.structs.replace(each, checksum=table.store.checksum(each.path))


def test_flipped_bytes_are_found_by_the_next_load(tmp_path: Path) -> None:
    table = committed(tmp_path, "a", "b")
    assert table.young() == []
    flip(tmp_path / path(hour(1), "a"))
    (fault,) = table.young()
    assert fault[:3] == (path(hour(1), "a"), "changed", 10)
    # As long as it is so, and told once.
    assert table.young() == [fault]
    told = [each for each in table.told if each["faults"]]
    assert [each["fault"] for each in told[-1]["faults"]] == ["changed"]
    assert len(told) == 1
    table.write(path(hour(1), "a"), lines(10))
    assert table.young() == []
    assert table.told[-1]["faults"] == []


def test_what_nobody_has_touched_is_looked_at_in_turn(tmp_path: Path) -> None:
    table = committed(tmp_path, "a", "b", "c")
    assert table.check(most_bytes=1).young(NOW) == []
    flip(tmp_path / path(hour(1), "c"), untouched=True)
    assert table.check(most_bytes=1).young(NOW) == []
    later = NOW
    for _ in range(2):
        later += IN_TURN_MILLIS
        assert table.check(most_bytes=1).young(later) == []
    (found,) = table.check(most_bytes=1).young(later + IN_TURN_MILLIS)
    assert [each.path for each in found.faults] == [path(hour(1), "c")]


def test_whoever_asks_has_all_looked_at(tmp_path: Path) -> None:
    table = committed(tmp_path, "a")
    assert table.young() == []
    flip(tmp_path / path(hour(1), "a"), untouched=True)
    (found,) = table.check().asked([hour(1)], NOW)
    assert [each.fault.value for each in found.faults] == ["changed"]


def test_checksums_are_remembered_as_long_as_a_manifest_names_the_files(tmp_path: Path) -> None:
    """And so longer than there are manifests with them."""
    table = committed(tmp_path, "a")
    assert table.young() == []
    for _ in range(3):
        table.commit([], now=NOW)
    for run in (1, 2, 3):
        table.store.delete(f"_penstock/{TABLE}/manifest-{run}.json")
    old = NOW + 72 * HOUR_MILLIS
    assert table.young(old) == []
    flip(tmp_path / path(hour(1), "a"), untouched=True)
    (found,) = table.check().asked([hour(1)], old)
    assert [each.fault.value for each in found.faults] == ["changed"]


FILE = CommittedFile(3, 10, "t", "CRC32C:01", modified=5, verified=NOW)


def test_what_says_nothing_of_the_content() -> None:
    assert is_other(FILE, "CRC32C:02")
    assert not is_other(FILE, "CRC32C:01")
    assert not is_other(FILE, "MD5-of-CRC:02")
    assert not is_other(FILE, "")
    entry = Entry("p", False, 10, 9)
    assert looked_at(FILE, entry, "", NOW + 1) == FILE
    assert looked_at(FILE, entry, "CRC32C:02", NOW + 1).modified == 0
    assert looked_at(FILE, entry, "CRC32C:01", NOW + 1)[4:] == (9, NOW + 1)
    for there in (Entry("p", False, 11, 9), None):
        entries = {} if there is None else {"p": there}
        assert to_look_at({"p": FILE}, entries, all_=True, most_bytes=9, now=NOW) == []
    nobody_knows = {"p": FILE._replace(checksum="")}
    assert to_look_at(nobody_knows, {"p": entry}, all_=True, most_bytes=9, now=NOW) == []


def test_the_state_of_a_former_release_is_read() -> None:
    old = {
        "version": 1,
        "run": 4,
        "topics": ["t"],
        "files": {"0": {"a": [3, 10, 0]}},
        "said": {},
        "faulty": [],
    }
    known = from_bytes(msgspec.json.encode(old))
    assert known is not None
    assert known.files == {0: {"a": CommittedFile(3, 10, "t")}}
    assert state_path("t") == "_penstock/~checks/t.json"
    again = Checked(4, {hour(0): {"a": FILE}})
    assert from_bytes(to_bytes(again)) == again
