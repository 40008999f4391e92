"""The folder of enrolled keys: which public keys may sign for which host.

    web-1.pub               a key of the host web-1
    web-1/agent.pub         another one, under any name
    revoked                 keys that count no more from a time on, one a line:
                            FINGERPRINT 2026-11-20T12:00Z

Host names are those in the ledger. The folder is read again when something in it has changed; if it
is invalid then, this is logged, and the former keys stay. Entries that were rejected before their
key was enrolled are not read again.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from ground.signatures.keys import PUBLIC_SUFFIX, BadKey, PublicKey

REVOKED: Final = "revoked"

_MOST_FILES: Final = 1_000_000
_MOST_BYTES: Final = 16 * 1024 * 1024

log = logging.getLogger(__name__)


class BadKeysFolder(Exception):
    """The folder is invalid; the message says where and why."""


class EnrolledKeys(msgspec.Struct, frozen=True):
    """The keys of each host, as bytes, and when they were revoked, in milliseconds."""

    by_host: Mapping[str, tuple[bytes, ...]] = {}
    revoked: Mapping[bytes, int] = {}

    @property
    def is_by_first_use(self) -> bool:
        return False

    def accepts(self, key: bytes, host: str, time: int) -> bool:
        """Whether the key may sign entries of a host at this time."""
        revocation = self.revoked.get(key)
        return key in self.by_host.get(host, ()) and (revocation is None or time < revocation)

    def enrolled(self, host: str) -> Sequence[bytes]:
        return self.by_host.get(host, ())


class KeysFolder:
    """One folder of keys. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: list[tuple[str, int, int]] = []
        self._problem = ""

    def read(self) -> EnrolledKeys:
        """Reads the folder, at the start. Raises BadKeysFolder."""
        try:
            self._seen = self._signature()
            return read(self._path)
        except OSError as error:
            raise BadKeysFolder(f"{error.filename}: {error.strerror}") from None

    def changed(self) -> EnrolledKeys | None:
        """Returns the keys if the folder has changed since the last call and is valid, else
        None."""
        try:
            if self._signature() == self._seen:
                return None
            keys = self.read()
        except (OSError, BadKeysFolder) as error:
            if str(error) != self._problem:
                log.warning(
                    "cannot read the enrolled keys, the former ones are used path=%s error=%r",
                    *(self._path, str(error)),
                )
            self._problem = str(error)
            return None
        self._problem = ""
        log.info("enrolled keys read path=%s hosts=%d", self._path, len(keys.by_host))
        return keys

    def _signature(self) -> list[tuple[str, int, int]]:
        """Raises OSError."""
        statuses = ((path, path.stat()) for path in _files(self._path))
        return [(str(path), status.st_mtime_ns, status.st_size) for path, status in statuses]


def read(folder: Path) -> EnrolledKeys:
    """Raises OSError, BadKeysFolder."""
    keys: defaultdict[str, dict[bytes, None]] = defaultdict(dict)
    for path in key_files(folder):
        try:
            keys[host_of(folder, path)][PublicKey.of_file(path).raw] = None
        except BadKey as error:
            raise BadKeysFolder(str(error)) from None
    times = revocations(folder)
    all_keys = {key for host_keys in keys.values() for key in host_keys}
    fingerprints = {key: PublicKey(key).fingerprint for key in all_keys} if times else {}
    revoked = {key: times[name] for key, name in fingerprints.items() if name in times}
    return EnrolledKeys({host: tuple(host_keys) for host, host_keys in keys.items()}, revoked)


def key_files(folder: Path) -> list[Path]:
    """Returns the files of public keys, in order. Raises OSError, BadKeysFolder."""
    return [path for path in _files(folder) if path != folder / REVOKED]


def host_of(folder: Path, path: Path) -> str:
    """Returns the host for which a file of the folder enrols a key."""
    return path.parent.name if path.parent != folder else path.name.removesuffix(PUBLIC_SUFFIX)


def revocations(folder: Path) -> dict[str, int]:
    """Returns the times from which keys count no more, in milliseconds, by fingerprint. The last
    line of a key counts. Raises OSError, BadKeysFolder."""
    path = folder / REVOKED
    if not path.exists():
        return {}
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    times: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            fingerprint, time = words
            moment = datetime.fromisoformat(time)
            bytes.fromhex(fingerprint)
        except ValueError:
            raise BadKeysFolder(
                f"{path}, line {number}: expected a fingerprint and a time such as"
                " 2026-11-20T12:00Z"
            ) from None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        times[fingerprint.lower()] = int(aware.timestamp() * 1000)
    return times


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files that count, in order. Raises OSError, BadKeysFolder."""
    count = 0
    for path in sorted(folder.iterdir()):
        parts = sorted(path.iterdir()) if path.is_dir() else [path]
        for part in parts:
            if part.name.endswith(PUBLIC_SUFFIX) or part == folder / REVOKED:
                count += 1
                yield part
    if count > _MOST_FILES:
        raise BadKeysFolder(f"{folder} has more than {_MOST_FILES:,} keys")
