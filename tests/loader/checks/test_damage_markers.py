"""`_DAMAGED` in place of `_SUCCESS`: when it comes and goes, wherever a loader is stopped."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from loader.commit.layout import success_marker
from loader.values.manifests import HourState, Issued, Marker
from loader.values.tables import Digest
from tests.loader.checks.tables import NOW, TABLE, Table, added, hour, lines, path
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, stop

FILE = path(hour(1), "a")
FOLDER = FILE.removesuffix("/a")
STATE = HourState(rows=5, files=(FILE,), bytes=20, changed=1, complete=1, at=NOW)
SUCCESS = success_marker(TABLE, hour(1), STATE, 1).written
MISSING = [(FILE, "missing", 5, 0)]


def damaged_hour(root: Path) -> Table:
    table = Table(root)
    table.commit([added(hour(1), "a", 5)], hours={hour(1): STATE})
    table.write(f"{FOLDER}/_SUCCESS", SUCCESS)
    table.store.delete(FILE)
    return table


def markers(table: Table) -> dict[str, bytes | None]:
    listed = table.store.list(FOLDER)
    return {entry.name: table.store.read(entry.path) for entry in listed if entry.name[0] == "_"}


def test_an_hour_has_one_of_the_two_markers(tmp_path: Path) -> None:
    table = damaged_hour(tmp_path)
    for copies in (0, 0, 100):  # extra files
        for number in range(copies):
            table.write(f"{FOLDER}/{number}", b"")
        assert MISSING[0] in table.young()
        ((name, content),) = markers(table).items()
        said = json.loads(content or b"")
        assert (name, len(said.pop("faults"))) == ("_DAMAGED", min(copies + 1, 100))
        assert (said.pop("more_faults"), said.pop("what_to_do")) == (copies // 100, "load")
        assert said == json.loads(SUCCESS)
    for number in range(copies):
        table.store.delete(f"{FOLDER}/{number}")
    table.write(FILE, lines(5))
    assert table.young() == []
    assert markers(table) == {"_SUCCESS": SUCCESS}
    assert table.warned == [
        f"{FOLDER} has `_DAMAGED` in place of `_SUCCESS` from now on",
        f"{FOLDER} is intact again and has `_SUCCESS` again",
    ]


def test_hours_without_success_get_none(tmp_path: Path) -> None:
    """An open hour is marked; a folder that was deleted, as by a user's retention, stays so."""
    table = damaged_hour(tmp_path)
    table.store.delete(FOLDER)
    table.commit([added(hour(2), "a", 1), added(hour(2), "b", 1)])
    table.store.delete(gone := path(hour(2), "a"))
    assert table.young() == [(gone, "missing", 1, 0), *MISSING]
    assert table.store.list(FOLDER) == []
    assert table.store.read(path(hour(2), "_DAMAGED")) is not None
    table.write(gone, lines(1))
    assert table.young() == MISSING
    assert [entry.name for entry in table.store.list(gone[:-2])] == ["a", "b"]


def test_a_marker_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    table = damaged_hour(tmp_path)
    table.write(f"{FOLDER}/_DAMAGED/in the way", b"")
    assert table.young() == MISSING
    assert table.store.read(f"{FOLDER}/_SUCCESS") == SUCCESS
    assert "cannot be written in place of `_SUCCESS`" in table.warned[0]


def test_a_certificate_that_is_missing_is_restored(tmp_path: Path) -> None:
    """Unless the hour was rewritten without one, or its files are not as committed."""
    certificate = Marker(path=f"{FOLDER}/_CERTIFICATE.json", content="signed")
    certified = replace(
        STATE,
        digests=(Digest(b"1" * 32),),
        certificates=(Issued(1, Digest(b"2" * 32)),),
        certified=1,
    )
    table = Table(tmp_path)
    table.commit([added(hour(1), "a", 5)], hours={hour(1): certified}, markers=[certificate])
    table.write(f"{FOLDER}/_SUCCESS", SUCCESS)
    for _ in range(3):
        table.commit(hours={hour(1): certified})
        assert table.young() == []
        assert markers(table)["_CERTIFICATE.json"] == b"signed"
        assert len(table.warned) == 1
    assert table.warned[0] == f"{certificate.path} was missing, and was restored"
    table.store.delete(certificate.path)
    table.commit(hours={hour(1): replace(certified, rewritten=5)})
    assert table.young() == []
    assert set(markers(table)) == {"_SUCCESS"}
    table.commit(hours={hour(1): certified})
    table.store.delete(FILE)
    table.write(f"{FOLDER}/b", lines(5))
    assert table.young() != []
    assert set(markers(table)) == {"_DAMAGED"}


@pytest.mark.parametrize("mended", [False, True], ids=["damaged", "mended"])
def test_a_loader_that_is_stopped_leaves_a_marker(tmp_path: Path, *, mended: bool) -> None:
    """At each step one of the two is there, and the next check leaves the right one."""
    number, reached = 0, True
    while reached:
        table = damaged_hour(tmp_path / str(number))
        if mended:
            table.young()
            table.write(FILE, lines(5))
        step = At(number, stop)
        table.commit_log.store = SteppingStore(table.store, step)
        try:
            table.young()
        except StoppedHere:
            assert markers(table).keys() & {"_SUCCESS", "_DAMAGED"}, number
        table.commit_log.store = table.store
        assert bool(table.young()) != mended
        assert set(markers(table)) == {"_SUCCESS" if mended else "_DAMAGED"}
        number, reached = number + 1, step.reached
    assert number > 4
