"""Checks one hour: its certificate, each certified file, and that no other file has rows.

A load may replace an hour's files and its certificate meanwhile. So an hour with a fault is checked
again if its certificate has changed since it was read.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from enum import Enum
from typing import Final

import msgspec

from penstock.verify.chain import Link
from penstock.verify.faults import Fault, Kind
from penstock.verify.files import CheckedFile, check_file
from penstock.verify.heads import CheckedHeads, HeadsChecker
from penstock.verify.keys import TrustedKeys
from penstock.verify.layout import DAMAGED, SUCCESS, HourFolder, is_read
from penstock.verify.statements import HourStatement, link_of, read_certificate
from penstock.verify.store import Store, Unreadable

_ATTEMPTS: Final = 3


class HourState(Enum):
    CERTIFIED = "certified"
    UNCERTIFIED = "not certified"  # complete, without a certificate
    OPEN = "open"
    DAMAGED = "damaged"


class CheckedHour(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one hour. Without a certificate it has no files, rows or signers."""

    folder: HourFolder
    state: HourState
    faults: tuple[Fault, ...] = ()
    link: Link | None = None
    signers: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    rows: int = 0
    has_counted_rows: bool = True  # those of all files
    has_rows: bool = False  # has files that readers take for rows
    is_checked: bool = True  # its files were read
    absent: tuple[str, ...] = ()  # agents without a signed head, in words
    has_heads: bool = True  # its certificate names a heads file

    @property
    def is_whole(self) -> bool:
        return self.state is HourState.CERTIFIED and not self.faults


class StartedHour(msgspec.Struct, frozen=True, kw_only=True):
    """An hour whose files are being read."""

    folder: HourFolder
    state: HourState
    statement: HourStatement | None
    faults: tuple[Fault, ...]
    files: Sequence[Future[CheckedFile]]
    has_rows: bool = False
    is_checked: bool = True
    absent: tuple[str, ...] = ()


class HourChecker:
    """Checks hours; several may be started before the first is finished."""

    def __init__(
        self, store: Store, keys: TrustedKeys, pool: Executor, heads: HeadsChecker
    ) -> None:
        self._store = store
        self._heads = heads
        self._keys = keys
        self._pool = pool

    def start(self, folder: HourFolder, *, with_files: bool = True) -> StartedHour:
        """Reads the certificate, lists the folder, and has the pool read the files; without files,
        checks the certificate alone."""
        statement = read_certificate(self._store, self._keys, folder)
        try:
            names = {entry.name for entry in self._store.list(folder.path)}
        except Unreadable as error:
            fault = Fault(kind=Kind.UNREADABLE, path=folder.path, words=str(error))
            return StartedHour(
                folder=folder, state=HourState.OPEN, statement=statement, faults=(fault,), files=()
            )
        faults = [] if statement is None else list(statement.faults)
        certified = _certified(statement)
        heads = CheckedHeads()
        if with_files:
            faults += _folder_faults(folder, names, certified)
            if (
                statement is not None
                and statement.certificate is not None
                and certified is not None
            ):
                heads = self._heads.check(statement.certificate, folder)
                faults += heads.faults
        files = [
            self._pool.submit(check_file, self._store, f"{folder.path}/{name}", sha256)
            for name, sha256 in ({} if certified is None or not with_files else certified).items()
        ]
        return StartedHour(
            folder=folder,
            state=_state(statement, names),
            statement=statement,
            faults=tuple(faults),
            files=files,
            has_rows=any(map(is_read, names)),
            is_checked=with_files,
            absent=heads.absent,
        )

    def finish(self, started: StartedHour) -> CheckedHour:
        """Waits for the files of an hour."""
        checked = self._finish(started)
        for _ in range(_ATTEMPTS - 1):
            if not checked.faults or not self._has_changed(started):
                break
            started = self.start(started.folder, with_files=started.is_checked)
            checked = self._finish(started)
        return checked

    def _has_changed(self, started: StartedHour) -> bool:
        if started.statement is None:
            return False
        statement = read_certificate(self._store, self._keys, started.folder)
        return statement is None or statement.sha256 != started.statement.sha256

    def _finish(self, started: StartedHour) -> CheckedHour:
        files = [future.result() for future in started.files]
        faults = [*started.faults, *(file.fault for file in files if file.fault is not None)]
        statement = started.statement
        if statement is None or statement.certificate is None:
            return CheckedHour(
                folder=started.folder,
                state=started.state,
                faults=tuple(faults),
                has_rows=started.has_rows,
                is_checked=started.is_checked,
            )
        rows = statement.certificate.predicate.rows
        has_counted_rows = all(file.rows is not None for file in files)
        counted_rows = sum(file.rows or 0 for file in files)
        is_counted = started.is_checked and not faults
        if is_counted and (counted_rows > rows or (has_counted_rows and counted_rows < rows)):
            words = f"certifies {rows:,} rows, and its files have {counted_rows:,}"
            path = started.folder.certificate
            faults.append(Fault(kind=Kind.WRONG_ROWS, path=path, words=words))
        return CheckedHour(
            folder=started.folder,
            state=started.state,
            faults=tuple(faults),
            link=link_of(statement, started.folder),
            signers=statement.signers,
            files=len(files),
            bytes=sum(file.bytes for file in files),
            rows=rows,
            has_counted_rows=has_counted_rows,
            has_rows=started.has_rows,
            is_checked=started.is_checked,
            absent=started.absent,
            has_heads=statement.certificate.predicate.heads is not None,
        )


def _certified(statement: HourStatement | None) -> Mapping[str, str] | None:
    """The digests of the hour's files by name; None if nothing says so that is believed."""
    if statement is None or statement.certificate is None or statement.faults:
        return None
    return {
        subject.name.rpartition("/")[2]: subject.digest.sha256
        for subject in statement.certificate.subject
    }


def _folder_faults(
    folder: HourFolder, names: set[str], certified: Mapping[str, str] | None
) -> Iterator[Fault]:
    if DAMAGED in names:
        yield Fault(kind=Kind.DAMAGED_HOUR, path=folder.path, words=f"has {DAMAGED}")
    if certified is not None:
        for name in sorted(names - certified.keys()):
            if is_read(name):
                path = f"{folder.path}/{name}"
                words = "is in a certified hour, and not certified"
                yield Fault(kind=Kind.UNLISTED_FILE, path=path, words=words)


def _state(statement: HourStatement | None, names: set[str]) -> HourState:
    if SUCCESS in names:
        return HourState.UNCERTIFIED if statement is None else HourState.CERTIFIED
    return HourState.DAMAGED if DAMAGED in names else HourState.OPEN
