"""Adds keys to a folder that `signatures.keys_dir` of an audit may name, and revokes them.

    HOST/PROGRAM-FINGERPRINT.pub    a key, with the first 16 digits of its fingerprint
    revoked                         the keys that count no more from a time on
    .lock                           held while the folder is changed

`audit.configuration.enrolled_keys` defines what the folder means. Keys are never removed, since
entries in the ledger need them. A key is written before its predecessor is revoked, each by one
rename: after a kill in between both count, and the next enrolment completes it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from audit.configuration.enrolled_keys import (
    REVOKED,
    BadKeysFolder,
    host_of,
    key_files,
    revocations,
)
from ground.files.directory_lock import DirectoryLock, InUse
from ground.files.durable_files import replace_file, sync_directory
from ground.printable import one_line
from ground.signatures.keys import PUBLIC_SUFFIX, BadKey, PublicKey

MOST_REASON: Final = 200

_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,252}")
_PROGRAM: Final = re.compile(r"[a-z][a-z0-9._-]{0,99}")
_SHORT: Final = 16  # digits of a fingerprint, in the name of a file
_FILE: Final = re.compile(rf"(.+)-[0-9a-f]{{{_SHORT}}}")
_FOR_ALL: Final = 0o644
_PATIENCE_S: Final = 30.0


class BadEnrolment(Exception):
    """A key cannot be enrolled or revoked; the message says why and what to do."""


class ProgramKey(msgspec.Struct, frozen=True, kw_only=True):
    """The public key of a program on a host. `program` is empty in a file `HOST.pub`."""

    host: str
    program: str
    key: PublicKey

    @property
    def fingerprint(self) -> str:
        return self.key.fingerprint


class EnrolledKey(ProgramKey, frozen=True, kw_only=True):
    """A key in the folder. `revoked` is the time from which it does not count, in milliseconds."""

    path: Path
    revoked: int | None = None


class Enrolled(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an enrolment. `refused` are keys that the folder revokes."""

    new: tuple[ProgramKey, ...] = ()
    unchanged: tuple[ProgramKey, ...] = ()
    refused: tuple[ProgramKey, ...] = ()
    replaced: tuple[EnrolledKey, ...] = ()


def enrolled_keys(folder: Path) -> list[EnrolledKey]:
    """Returns the keys, by host. Raises BadEnrolment if the audit would reject the folder, and
    OSError."""
    try:
        times = revocations(folder)
        return [_enrolled(folder, path, times) for path in key_files(folder)]
    except (BadKey, BadKeysFolder) as error:
        raise BadEnrolment(str(error)) from None


def enrol(
    folder: Path, keys: Sequence[ProgramKey], *, replace: bool, now: int, dry_run: bool = False
) -> Enrolled:
    """Writes keys into the folder, which is created if it is missing. With `replace`, a program's
    former keys are revoked from now on; a key that several hosts share, once the last of them has
    another. Raises BadEnrolment, OSError."""
    for key in keys:
        _check_names(key)
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    with _changing(folder, dry_run=dry_run):
        present = enrolled_keys(folder) if folder.exists() else []
        revoked = {key.fingerprint for key in present if key.revoked is not None}
        accepted = [key for key in keys if key.fingerprint not in revoked]
        former_paths, known = {key.path for key in present}, {*map(_identity, present)}
        entries = {_path(folder, key): _in(folder, key) for key in accepted}
        owners = {*map(_identity, entries.values())}
        renamed = [key for key in present if key.path not in entries and _identity(key) in owners]
        after = {key.path: key for key in present if key not in renamed} | entries
        replaced = _replaced([*after.values()], accepted) if replace else []
        if not dry_run:
            for path, key in entries.items():
                if path not in former_paths:
                    _write(folder, key)
            for key in renamed:
                key.path.unlink()
            _revoke(folder, replaced, now, "replaced by another key")
        return Enrolled(
            new=tuple(key for key in accepted if _identity(key) not in known),
            unchanged=tuple(key for key in accepted if _identity(key) in known),
            refused=tuple(key for key in keys if key.fingerprint in revoked),
            replaced=tuple(replaced),
        )


def revoke(
    folder: Path, name: str, *, program: str, since: int, reason: str, dry_run: bool = False
) -> list[EnrolledKey]:
    """Revokes the keys of a host, or the key with a fingerprint, from a time on. Keys that are
    revoked from an earlier time on are left as they are. Returns the revoked ones. Raises
    BadEnrolment, OSError."""
    with _changing(folder, dry_run=dry_run):
        present = enrolled_keys(folder)
        by_fingerprint = [key for key in present if key.fingerprint == name.lower()]
        chosen = by_fingerprint or [
            key for key in present if key.host == name and program in {"", key.program}
        ]
        if not chosen:
            what = f"{program} on {name}" if program else name
            raise BadEnrolment(f"{folder} has no key of {what}")
        changed = [key for key in chosen if key.revoked is None or since < key.revoked]
        if not by_fingerprint:
            _check_unshared(present, changed)
        if not dry_run:
            _revoke(folder, changed, since, reason)
        return [msgspec.structs.replace(key, revoked=since) for key in changed]


def _check_names(key: ProgramKey) -> None:
    """Raises BadEnrolment."""
    if not _HOST.fullmatch(key.host) or key.host == REVOKED or key.host.endswith(PUBLIC_SUFFIX):
        raise BadEnrolment(
            f"{key.host!r} is not a host name: use letters, digits, ., _, : and -, beginning with"
            " a letter or a digit"
        )
    if not _PROGRAM.fullmatch(key.program):
        raise BadEnrolment(
            f"{key.program!r} is not the name of a program such as agent or broker-2: use small"
            " letters, digits, ., _ and -"
        )


def _check_unshared(present: Sequence[EnrolledKey], chosen: Sequence[EnrolledKey]) -> None:
    """Raises BadEnrolment if a key also belongs to another host."""
    hosts = {key.host for key in chosen}
    fingerprints = {key.fingerprint for key in chosen}
    for key in present:
        if key.fingerprint in fingerprints and key.host not in hosts:
            raise BadEnrolment(
                f"{key.host} has the same key of {key.program or 'a program'}: to revoke it for"
                f" both, pass its fingerprint, {key.fingerprint}"
            )


def _enrolled(folder: Path, path: Path, times: dict[str, int]) -> EnrolledKey:
    """Raises BadKey."""
    key = PublicKey.of_file(path)
    name = path.name.removesuffix(PUBLIC_SUFFIX)
    match = _FILE.fullmatch(name)
    program = "" if path.parent == folder else match[1] if match else name
    return EnrolledKey(
        host=host_of(folder, path),
        program=program,
        key=key,
        path=path,
        revoked=times.get(key.fingerprint),
    )


def _path(folder: Path, key: ProgramKey) -> Path:
    return folder / key.host / f"{key.program}-{key.fingerprint[:_SHORT]}{PUBLIC_SUFFIX}"


def _in(folder: Path, key: ProgramKey) -> EnrolledKey:
    path = _path(folder, key)
    return EnrolledKey(host=key.host, program=key.program, key=key.key, path=path)


def _identity(key: ProgramKey) -> tuple[str, str]:
    return key.host, key.fingerprint


def _replaced(after: Sequence[EnrolledKey], keys: Sequence[ProgramKey]) -> list[EnrolledKey]:
    """Returns the former keys of programs that have another one on each of their hosts."""
    current = {(key.host, key.program): key.fingerprint for key in keys}
    incoming = set(current.values())
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for key in after:
        holders[key.fingerprint].add(key.host)
    replaced = []
    for former in after:
        newer = current.get((former.host, former.program))
        if newer is None or former.revoked is not None or former.fingerprint in incoming:
            continue
        if holders[former.fingerprint] <= holders[newer]:
            replaced.append(former)
    return replaced


def _write(folder: Path, key: ProgramKey) -> None:
    path = _path(folder, key)
    if not path.parent.is_dir():
        path.parent.mkdir()
        sync_directory(folder)
    replace_file(path, key.key.pem, mode=_FOR_ALL)


def _revoke(folder: Path, keys: Sequence[EnrolledKey], since: int, reason: str) -> None:
    """Adds lines for keys, in place of their former ones."""
    if not keys:
        return
    path = folder / REVOKED
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    fingerprints = {key.fingerprint for key in keys}
    kept = [line for line in text.splitlines() if _first_word(line) not in fingerprints]
    time = datetime.fromtimestamp(-(-since // 1000), UTC)  # up to the end of this second
    begin, end = f"{time:%Y-%m-%dT%H:%M:%S}Z  #", one_line(reason)
    added = [
        f"{key.fingerprint} {begin} {key.host} {key.program}: {end}"
        for key in {key.fingerprint: key for key in keys}.values()
    ]
    replace_file(path, "".join(f"{line}\n" for line in [*kept, *added]).encode(), mode=_FOR_ALL)


def _first_word(line: str) -> str:
    return line.partition("#")[0].strip().partition(" ")[0].lower()


@contextmanager
def _changing(folder: Path, *, dry_run: bool) -> Iterator[None]:
    """Locks the folder, unless nothing will be written. Raises BadEnrolment."""
    if dry_run:
        yield
        return
    if not folder.is_dir():
        raise BadEnrolment(f"{folder} does not exist: enrol a key, or pass --keys DIR")
    try:
        lock = DirectoryLock(folder / ".lock", patience_s=_PATIENCE_S)
    except InUse:
        raise BadEnrolment(f"another command is at work in {folder}: try again") from None
    try:
        yield
    finally:
        lock.close()
