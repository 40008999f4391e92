"""Whatever is changed in a certified table, `verify` names it, and never says that it is whole."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.verify.faults import Fault, FaultList, Kind, Verdict
from penstock.verify.keys import TrustedKeys
from penstock.verify.store import LocalStore
from penstock.verify.tables import CheckedTable, Expectations, TableChecker
from tests.penstock.verify.signed_tables import (
    CERTIFICATE,
    TABLE,
    SignedTable,
    Signers,
    signed_table,
)

HOURS: Final = 4
CERTIFIED_TWICE: Final = 1
POSITIONS: Final = st.integers(0, 1 << 30)

Alter = Callable[[SignedTable, st.DataObject], list[Path]]
"""Alters a table, and returns the paths of which one has to be named, or its folder."""


class Site:
    """A certified table, which each example alters and then restores."""

    def __init__(self, folder: Path) -> None:
        self.keys = TrustedKeys((signers := Signers.new()).write_public(folder / "keys"))
        self.table = signed_table(folder / "root", signers, range(HOURS))
        self._root = self.table.root
        self._contents = {path: path.read_bytes() for path in self._files()}

    def checked(self) -> CheckedTable:
        with ThreadPoolExecutor(2) as pool:
            checker = TableChecker(LocalStore(self._root), self.keys, pool, Expectations())
            return checker.check(TABLE, None)

    def restore(self) -> None:
        for path in set(self._files()) - self._contents.keys():
            path.unlink()
        for path, content in self._contents.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)

    def _files(self) -> Iterator[Path]:
        return (path for path in self._root.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


def faults_of(result: CheckedTable) -> Iterator[Fault]:
    return (fault for kind in result.faults.kinds for fault in result.faults.of(kind))


def signed_files(table: SignedTable) -> list[Path]:
    """Every file that signatures cover, whichever kind it is."""
    hours = [path for hour in range(HOURS) for path in table.files(hour)]
    heads = [table.heads_file(hour) for hour in range(HOURS)]
    return [*hours, *(table.certificate(hour) for hour in range(HOURS)), *heads, table.newest]


def drawn_file(table: SignedTable, data: st.DataObject) -> Path:
    return data.draw(st.sampled_from(signed_files(table)))


def flip_a_byte(table: SignedTable, data: st.DataObject) -> list[Path]:
    path = drawn_file(table, data)
    content = bytearray(path.read_bytes())
    content[data.draw(POSITIONS) % len(content)] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    return [path]


def cut(table: SignedTable, data: st.DataObject) -> list[Path]:
    path = drawn_file(table, data)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(POSITIONS) % len(content)])
    return [path]


def append(table: SignedTable, data: st.DataObject) -> list[Path]:
    path = data.draw(st.sampled_from([path for hour in range(HOURS) for path in table.files(hour)]))
    with path.open("ab") as file:
        file.write(data.draw(st.binary(min_size=1)))
    return [path]


def write_nonsense(table: SignedTable, data: st.DataObject) -> list[Path]:
    path = drawn_file(table, data)
    path.write_bytes(data.draw(st.binary()))
    return [path]


def remove(table: SignedTable, data: st.DataObject) -> list[Path]:
    path = drawn_file(table, data)
    path.unlink()
    return [path, table.root / TABLE]


def swap(table: SignedTable, data: st.DataObject) -> list[Path]:
    is_certificate = data.draw(st.booleans())
    paths = [path for path in signed_files(table) if (path.name == CERTIFICATE) is is_certificate]
    paths.remove(table.newest) if table.newest in paths else None
    one, other = data.draw(st.lists(st.sampled_from(paths), min_size=2, max_size=2, unique=True))
    one_content, other_content = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_content)
    other.write_bytes(one_content)
    return [one, other]


def copy_rows(table: SignedTable, data: st.DataObject) -> list[Path]:
    """A certified file, again: its rows are there twice."""
    hour = data.draw(st.integers(0, HOURS - 1))
    path = data.draw(st.sampled_from(table.files(hour)))
    target = table.folder(data.draw(st.integers(0, HOURS - 1))) / "part-copy.parquet"
    shutil.copy(path, target)
    return [target]


def remove_an_hour(table: SignedTable, data: st.DataObject) -> list[Path]:
    hour = data.draw(st.integers(0, HOURS - 1))
    folder = table.folder(hour)
    shutil.rmtree(folder)
    return [folder, table.root / TABLE]


def put_an_older_certificate_back(table: SignedTable, data: st.DataObject) -> list[Path]:
    """With the files that it certifies, and nothing else."""
    certificate = table.certificates[CERTIFIED_TWICE]
    table.certificate(CERTIFIED_TWICE).write_bytes(table.signers.signed(certificate))
    (table.folder(CERTIFIED_TWICE) / "part-dc1-0-10-12-9.parquet").unlink()
    if data.draw(st.booleans()):
        table.write_newest()  # as it was
    return [table.certificate(CERTIFIED_TWICE)]


def sign_with_another_key(table: SignedTable, data: st.DataObject) -> list[Path]:
    hour = data.draw(st.integers(0, HOURS - 1))
    certificate = next(
        made for made in reversed(table.certificates) if made.predicate.hour[11:13] == f"{hour:02}"
    )
    stranger = Signers.new()
    signers = Signers(
        audit=stranger.audit if data.draw(st.booleans()) else table.signers.audit,
        loader=stranger.loader,
    )
    table.certificate(hour).write_bytes(signers.signed(certificate))
    return [table.certificate(hour)]


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "alter",
    [
        flip_a_byte,
        cut,
        append,
        write_nonsense,
        remove,
        swap,
        copy_rows,
        remove_an_hour,
        put_an_older_certificate_back,
        sign_with_another_key,
    ],
    ids=lambda alter: alter.__name__,
)
@given(data=st.data())
def test_an_alteration_is_named(site: Site, alter: Alter, data: st.DataObject) -> None:
    try:
        paths = alter(site.table, data)
        result = site.checked()
        assert result.faults.verdict is not Verdict.WHOLE
        named = {fault.path for fault in faults_of(result)}
        wanted = {str(path.relative_to(site.table.root)) for path in paths}
        assert named & wanted, [(fault.path, fault.words) for fault in faults_of(result)]
    finally:
        site.restore()


def test_what_was_not_altered_is_whole(site: Site) -> None:
    result = site.checked()
    assert result.faults.verdict is Verdict.WHOLE
    assert (result.whole_hours, result.files) == (HOURS, 2 * HOURS + 1)
    assert result.rows == sum(10 + hour + 3 for hour in range(HOURS)) + 2
    assert result.has_counted_rows
    assert result.newest is not None
    assert result.newest.number == HOURS + 1


def test_a_fault_is_kept_a_thousand_times_and_counted_always() -> None:
    faults = FaultList()
    fault = Fault(kind=Kind.OPEN_HOUR, path="clicks", words="has no _SUCCESS")
    faults.add(fault for _ in range(1_001))
    assert faults.counts[Kind.OPEN_HOUR] == 1_001
    assert len(faults.of(Kind.OPEN_HOUR)) == 1_000
