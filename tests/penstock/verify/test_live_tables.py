"""A table that a load changes while it is verified, read through a store that makes it happen."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import RawIOBase
from pathlib import Path

import pytest

from penstock.verify.faults import Kind, Verdict
from penstock.verify.keys import TrustedKeys
from penstock.verify.store import LocalStore
from penstock.verify.tables import CheckedTable, Expectations, TableChecker
from tests.penstock.verify.signed_tables import TABLE, SignedTable, Signers, signed_table

HOURS = 4


class BusyStore(LocalStore):
    """A folder in which something happens before one of its files is opened for the first time."""

    def __init__(self, root: Path, path: Path, happens: Callable[[], None]) -> None:
        super().__init__(root)
        self._path = str(path.relative_to(root))
        self._happens: Callable[[], None] | None = happens

    def open(self, path: str) -> RawIOBase | None:
        if path == self._path and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return super().open(path)


@pytest.fixture
def table(tmp_path: Path) -> SignedTable:
    signers = Signers.new()
    signers.write_public(tmp_path / "keys")
    return signed_table(tmp_path / "root", signers, range(HOURS))


def checked(table: SignedTable, path: Path, happens: Callable[[], None]) -> CheckedTable:
    store = BusyStore(table.root, path, happens)
    keys = TrustedKeys(table.root.parent / "keys")
    with ThreadPoolExecutor(1) as pool:
        return TableChecker(store, keys, pool, Expectations()).check(TABLE, None)


def merge(table: SignedTable, hour: int) -> None:
    """What a load does that joins the small files of an hour."""
    for path in table.files(hour):
        path.unlink()
    table.add_rows(hour, rows=20, name="part-merged-77")
    table.certify(hour)


@pytest.mark.parametrize("hour", [0, 2])
def test_an_hour_that_is_rewritten_meanwhile_is_whole(table: SignedTable, hour: int) -> None:
    result = checked(table, table.files(hour)[0], lambda: merge(table, hour))
    assert result.faults.verdict is Verdict.WHOLE
    assert result.newest is not None
    assert result.newest.number == HOURS + 2


def test_hours_that_were_checked_before_may_be_certified_again(table: SignedTable) -> None:
    """Its number is missing in what was read, and is not when it is read again."""

    def certify_two() -> None:
        merge(table, 0)
        table.add_rows(HOURS)
        table.certify(HOURS)

    result = checked(table, table.certificate(3), certify_two)
    assert result.faults.verdict is Verdict.WHOLE


def test_an_alteration_is_not_excused_by_a_load(table: SignedTable) -> None:
    altered = table.files(1)[0]

    def alter() -> None:
        altered.write_bytes(b"altered")
        table.add_rows(HOURS)
        table.certify(HOURS)

    result = checked(table, altered, alter)
    assert [fault.path for fault in result.faults.of(Kind.CHANGED_FILE)] == [
        str(altered.relative_to(table.root))
    ]
