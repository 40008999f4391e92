"""Checks of whole tables: what is found, also of bytes; when it is told, and what is remembered."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from loader.checks.comparison import (
    IN_TURN_MILLIS,
    STORED_MILLIS,
    CommittedFile,
    differs,
    to_verify,
    verified,
)
from loader.checks.file_check import Checked, from_bytes, state_path, to_bytes
from loader.commit.layout import manifest_path, published_path, visible_path
from loader.errors import RunTaken
from loader.store.store import Entry
from loader.values.manifests import Added, HourState
from loader.values.tables import HOUR_MILLIS
from tests.loader.checks.tables import NOW, TABLE, THIS, TWO_DAYS, Table, added, hour, lines, path


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def statement(ago: int, files: int, rows: int, *faults: dict[str, object]) -> dict[str, object]:
    return {
        "topic": TABLE,
        "from_time": hour(ago),
        "to_time": hour(ago) + HOUR_MILLIS,
        "files": files,
        "rows": rows,
        "faults": list(faults),
    }


def test_what_changes_is_told_once_and_once_more_when_it_is_right_again(table: Table) -> None:
    table.commit([added(hour(1), "a", 5), added(hour(1), "b", 7), added(hour(3), "a", 2)])
    assert table.young() == []
    assert table.told == [statement(3, 1, 2), statement(1, 2, 12)]
    assert table.counted == []
    assert table.young() == []
    assert len(table.told) == 2

    data = table.store.read(path(hour(1), "a")) or b""
    table.store.delete(path(hour(1), "a"))
    table.write(path(hour(1), "b-copy"), lines(7))
    table.write(path(hour(2), "stray"), b"odd")
    table.write(path(hour(3), "a"), lines(1))
    faults = [
        (path(hour(3), "a"), "changed", 2, 1),
        (path(hour(2), "stray"), "extra", 0, -1),
        (path(hour(1), "a"), "missing", 5, 0),
        (path(hour(1), "b-copy"), "extra", 0, 7),
    ]
    assert table.young() == faults
    named = [
        {"path": p, "fault": fault, "committed_rows": rows, "found_rows": found}
        for p, fault, rows, found in faults
    ]
    assert table.told[2:] == [
        statement(3, 1, 2, {**named[0], "hour": hour(3)}),
        statement(2, 0, 0, {**named[1], "hour": hour(2)}),
        statement(1, 2, 12, {**named[2], "hour": hour(1)}, {**named[3], "hour": hour(1)}),
    ]
    assert table.young() == faults  # as long as it is so
    assert len(table.told) == 5

    table.write(path(hour(1), "a"), data)
    table.write(path(hour(3), "a"), lines(2))
    table.store.delete(path(hour(1), "b-copy"))
    table.store.delete(path(hour(2), "stray"))
    assert table.young() == []
    assert table.told[5:] == [statement(3, 1, 2), statement(2, 0, 0), statement(1, 2, 12)]


def test_what_a_plain_reader_does_not_see_is_no_fault(table: Table) -> None:
    table.commit([added(hour(1), "a", 5)])
    for name in ("_SUCCESS", "_LATE-1", ".a.crc", "b._COPYING_", "_temporary/0/part"):
        table.write(path(hour(1), name), b"x")
    table.write(f"{TABLE}/_common_metadata", b"x")
    table.write(f"{TABLE}/dt=2026-13-45/hour=07/a", b"x")
    table.write(f"{TABLE}/elsewhere", b"x")
    assert table.young() == []
    table.write(path(hour(1), "folder/a"), lines(1))
    assert table.young() == [(path(hour(1), "folder/a"), "extra", 0, 1)]


def test_what_was_merged_or_rebuilt_is_expected_no_more(table: Table) -> None:
    table.commit([added(hour(1), "a", 5), added(hour(1), "b", 7), added(hour(2), "a", 1)])
    assert table.young() == []
    small = [path(hour(1), name) for name in "ab"]
    table.commit([added(hour(1), "merged", 12)], removes=small)
    assert table.young() == []
    table.write(small[0], lines(5))
    assert table.young() == [(small[0], "extra", 0, 5)]
    table.store.delete(small[0])
    # It is gone, and its hour was closed without it: what was committed is missing all the same.
    table.store.delete(path(hour(2), "a"))
    table.commit(hours={**table.hours, hour(2): HourState(rows=0, files=(), at=NOW)})
    assert table.young() == [(path(hour(2), "a"), "missing", 1, 0)]
    table.commit([added(hour(2), "anew", 1)], rebuilt=[hour(2)])
    assert table.young() == []


def test_what_the_ledger_does_not_take_is_told_by_the_next(table: Table) -> None:
    table.commit([added(hour(1), "a", 5)])
    table.takes = False
    assert table.young() == []
    table.takes = True
    assert table.young() == []
    assert table.told == [statement(1, 1, 5)]


def test_old_hours_are_looked_at_when_they_change(table: Table) -> None:
    old = hour(1_000)
    table.commit([added(old, "a", 5)], now=NOW)
    table.store.delete(path(old, "a"))
    assert table.young() == [(path(old, "a"), "missing", 5, 0)]
    # Later it is no load's trouble any more. That it is right again is still noticed.
    later = NOW + TWO_DAYS
    table.commit(now=later)
    assert table.young(later) == []
    assert len(table.told) == 1
    table.check().on_request([hour(1)], later)  # what else is looked at does not matter
    table.write(path(old, "a"), lines(5))
    assert table.young(later) == []
    assert table.told[1:] == [statement(1_000, 1, 5)]
    table.store.delete(path(old, "a"))
    assert table.young(later) == []
    assert len(table.told) == 2


def test_all_hours_with_all_their_rows(table: Table) -> None:
    table.commit([added(hour(1_000), "a", 5), added(hour(1), "a", 2)], now=NOW - 2 * TWO_DAYS)
    check = table.check()
    intact = [(each.hour, each.faults) for each in check.on_request(None, NOW)]
    assert intact == [(hour(1_000), ()), (hour(1), ())]
    assert table.counted == [path(hour(1_000), "a"), path(hour(1), "a")]
    table.write(path(hour(1_000), "a"), b"\n" * 20)  # as long as it was
    table.write(path(hour(2_000), "odd"), lines(1))
    found = {each.hour: [str(one) for one in each.faults] for each in check.on_request(None, NOW)}
    unreadable = "has an unknown number of rows, not 5 rows"
    assert found == {
        hour(2_000): [f"{path(hour(2_000), 'odd')} was written by no run (1 rows)"],
        hour(1_000): [f"{path(hour(1_000), 'a')} {unreadable}"],
        hour(1): [],
    }
    (one,) = check.on_request([hour(1)], NOW)
    assert (one.files, one.rows, one.faults) == (1, 2, ())


def test_sizes_are_known_beyond_the_manifests_that_are_kept(table: Table) -> None:
    table.commit([added(hour(1), "a", 5), added(hour(1), "b", 7)])
    assert table.young() == []
    table.commit([added(hour(1), "c", 1)])
    forget(table, 1)
    table.write(path(hour(1), "b"), lines(6))
    assert table.young() == [(path(hour(1), "b"), "changed", 7, 6)]
    # Where that is lost as well, only the sum is known.
    table.store.delete(state_path(TABLE))
    folder = path(hour(1), "").rstrip("/")
    assert table.young() == [(folder, "changed", 12, 11)]
    table.write(path(hour(1), "b"), lines(7))
    assert table.young() == []
    # A check that was away for long has missed what was replaced meanwhile.
    table.commit([added(hour(1), "merged", 13)], removes=[path(hour(1), name) for name in "abc"])
    table.commit([added(hour(1), "d", 1)])
    forget(table, 2, 3)
    assert table.young() == []


def test_names_that_manifests_have_no_more_are_not_counted_twice(table: Table) -> None:
    table.commit([added(hour(1), "a", 5), added(hour(1), "b", 7)])
    assert table.young() == []
    table.commit(hours={hour(1): HourState(rows=12, files=(), unlisted=2, bytes=48, at=NOW)})
    assert table.young() == []
    table.store.delete(path(hour(1), "a"))
    folder = path(hour(1), "").rstrip("/")
    assert table.young() == [(folder, "missing", 12, 7)]


def test_where_another_loader_is_at_work_nothing_is_said(table: Table) -> None:
    table.commit([added(hour(1), "a", 5)])
    table.store.delete(visible_path(TABLE, 1))
    table.store.delete(path(hour(1), "a"))
    with pytest.raises(RunTaken, match="another loader is at work"):
        table.young()
    assert table.told == []
    table.commit_log.mark_visible(1)

    class Slow(Table):
        def _count(self, paths: Sequence[str]) -> dict[str, int]:
            table.commit([added(hour(1), "b", 1)])
            return super()._count(paths)

    slow = Slow(table.root)
    slow.write(path(hour(1), "odd"), lines(1))
    with pytest.raises(RunTaken):
        slow.young()
    assert slow.told == []


def test_state_that_cannot_be_read_is_none(table: Table) -> None:
    table.commit([added(THIS, "a", 5)])
    for data in (b"", b"{", b'{"version": 2}', b"[]"):
        table.write(state_path(TABLE), data)
        assert table.young() == []
    table.write(path(THIS, "a"), lines(4))
    assert table.young() == [(path(THIS, "a"), "changed", 5, 4)]
    table.counted = []
    table.write(path(THIS, "a"), b"")  # no reader opens it
    assert table.young() == [(path(THIS, "a"), "changed", 5, 0)]
    assert table.counted == []


def forget(table: Table, *runs: int) -> None:
    for run in runs:
        for each in (manifest_path, visible_path, published_path):
            table.store.delete(each(TABLE, run))


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


@pytest.mark.parametrize("untouched", [False, True])
def test_flipped_bytes_are_found_by_the_next_load(tmp_path: Path, untouched: bool) -> None:
    table = committed(tmp_path, "a", "b")
    assert table.young() == []
    state = table.store.read(state_path(TABLE))
    assert table.young(NOW + 1) == []
    assert table.store.read(state_path(TABLE)) == state  # an idle load writes nothing
    flip(tmp_path / path(hour(1), "a"), untouched=untouched)
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
    assert table.outcomes(NOW, most_bytes=1) == []
    flip(tmp_path / path(hour(1), "c"), untouched=True)
    assert table.outcomes(NOW, most_bytes=1) == []
    later = NOW
    for _ in range(2):
        later += IN_TURN_MILLIS
        assert table.outcomes(later, most_bytes=1) == []
    (found,) = table.outcomes(later + IN_TURN_MILLIS, most_bytes=1)
    assert [each.path for each in found.faults] == [path(hour(1), "c")]


@pytest.mark.parametrize(("ago", "paths"), [(1, "bc"), (IN_TURN_MILLIS, "abcd")])
def test_frequent_loads_compare_a_large_table_in_parts(ago: int, paths: str) -> None:
    size = 8 * 1024 * 1024
    sizes = {"a": 3 * size, **dict.fromkeys("bcdef", size)}
    known = {name: FILE._replace(bytes=sizes[name], verified=NOW - ago) for name in sizes}
    entries = {name: Entry(name, False, sizes[name], FILE.modified) for name in sizes}
    assert due(known, entries, all_=False, most_bytes=6 * size) == [*paths]


@pytest.mark.parametrize(("ago", "paths"), [(STORED_MILLIS - 1, "b"), (STORED_MILLIS, "abc")])
def test_stored_checksums_of_untouched_files_are_compared_once_a_day(ago: int, paths: str) -> None:
    known = {name: FILE._replace(verified=NOW - ago) for name in "abc"}
    modified = {"a": FILE.modified, "b": FILE.modified + 1, "c": FILE.modified}
    entries = {name: Entry(name, False, FILE.bytes, time) for name, time in modified.items()}
    assert due(known, entries, all_=False, are_stored=True) == [*paths]
    assert due(known, entries, all_=True, are_stored=True) == [*"abc"]


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
    (found,) = table.check().on_request([hour(1)], old)
    assert [each.fault.value for each in found.faults] == ["changed"]


FILE = CommittedFile(3, 10, "t", "CRC32C:01", modified=5, verified=NOW)


def due(
    known: Mapping[str, CommittedFile],
    present: Mapping[str, Entry],
    *,
    all_: bool,
    most_bytes: int = 1_000_000,
    are_stored: bool = False,
) -> list[str]:
    return to_verify(
        known, present, all_=all_, most_bytes=most_bytes, are_stored=are_stored, now=NOW
    )


def test_what_says_nothing_of_the_content() -> None:
    assert differs(FILE, "CRC32C:02")
    assert not differs(FILE, "CRC32C:01")
    assert not differs(FILE, "MD5-of-CRC:02")
    assert not differs(FILE, "")
    entry = Entry("p", False, 10, 9)
    assert verified(FILE, entry, "", NOW + 1) == FILE
    assert verified(FILE, entry, "CRC32C:02", NOW + 1).modified == 0
    assert verified(FILE, entry, "CRC32C:01", NOW + 1)[4:] == (9, NOW + 1)
    for there in (Entry("p", False, 11, 9), None):
        entries = {} if there is None else {"p": there}
        assert due({"p": FILE}, entries, all_=True) == []
    nobody_knows = {"p": FILE._replace(checksum="")}
    assert due(nobody_knows, {"p": entry}, all_=True) == []


def test_the_state_of_a_former_release_is_read() -> None:
    old = {"version": 1, "run": 4, "topics": ["t"], "said": {}, "faulty": []}
    old |= {"files": {"0": {"a": [3, 10, 0]}}}
    known = from_bytes(msgspec.json.encode(old))
    assert known is not None
    assert known.files == {0: {"a": CommittedFile(3, 10, "t")}}
    assert state_path("t") == "_penstock/~checks/t.json"
    again = Checked(4, {hour(0): {"a": FILE}})
    assert from_bytes(to_bytes(again)) == again
