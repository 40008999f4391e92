"""Who may come in with a token: a file with a line for each, its token as a hash.

    ci-builds:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bdf39e2f2f9b5c7a1e0ff

A token is long and random, so that a fast hash keeps it: nobody tries all of them. (A password does
not go here; `password_file` is for those.) The file is looked at whenever it has changed; if it
cannot be read, or a line in it is none, what was known before stays in force, and that is logged
once.
"""

import hashlib
import hmac
import logging
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ground.password_file import check_name

log = logging.getLogger(__name__)

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_MOST_BYTES: Final = 4 * 1024 * 1024
_LONGEST: Final = 16 * 1024


class BadTokenFile(Exception):
    """It cannot be used; names file and line."""


class TokenFile:
    """The tokens of one file. Any thread may ask."""

    def __init__(self, path: Path) -> None:
        """Raises BadTokenFile."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._refused: tuple[int, int, int] | None = None
        self._names = read_tokens(path)

    def name_of(self, token: str) -> str | None:
        """Whose it is; None if it is nobody's."""
        if not token or len(token) > _LONGEST:
            return None
        # Found by its hash: how long that takes says nothing of the token.
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        for known, name in self._current().get(digest[:8], {}).items():
            if hmac.compare_digest(known, digest):
                return name
        return None

    def _current(self) -> Mapping[bytes, Mapping[bytes, str]]:
        stamp = _stamp(self._path)
        with self._lock:
            if stamp not in (self._stamp, self._refused):
                try:
                    self._names, self._stamp = read_tokens(self._path), stamp
                except BadTokenFile as error:
                    self._refused = stamp
                    log.error("tokens were changed, the old ones stay reason=%s", error)
            return self._names


def read_tokens(path: Path) -> Mapping[bytes, Mapping[bytes, str]]:
    """Names by hashes, those by their first bytes. Raises BadTokenFile."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise BadTokenFile(f"{path} has more than {_MOST_BYTES} bytes")
        text = content.decode()
    except OSError as error:
        why = (error.strerror or "").lower()
        raise BadTokenFile(f"{path} cannot be read: {why}") from None
    except UnicodeDecodeError:
        raise BadTokenFile(f"{path} is not UTF-8") from None
    found: dict[bytes, dict[bytes, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        hashed = _HASH.fullmatch(rest.strip())
        try:
            check_name(name)
        except ValueError:
            hashed = None
        if hashed is None:
            raise BadTokenFile(f"{path}, line {number}: not `name:sha256:…`")
        digest = bytes.fromhex(hashed[1])
        found.setdefault(digest[:8], {})[digest] = name
    return found


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 -- at every login
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size
