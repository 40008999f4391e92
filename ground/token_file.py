"""Who may come in with a token: a file with a line for each, its token as a hash.

    ci-builds:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bdf39e2f2f9b5c7a1e0ff

A token is long and random, so that a fast hash keeps it: nobody tries all of them. (A password does
not go here; `password_file` is for those.) The file is looked at whenever it has changed; if it
cannot be read, or a line in it is none, what was known before stays in force, and that is logged
once.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ground.exchanged_files import Exchanged
from ground.login_files import check_name, lines_of

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_LONGEST: Final = 16 * 1024


class BadTokenFile(Exception):
    """It cannot be used; names file and line."""


class TokenFile:
    """The tokens of one file. Any thread may ask."""

    def __init__(self, path: Path) -> None:
        """Raises BadTokenFile."""
        self._file = Exchanged(
            (str(path),),
            lambda: read_tokens(path),
            unusable=BadTokenFile,
            what="tokens were changed",
        )
        _ = self._file.current

    def name_of(self, token: str) -> str | None:
        """Whose it is; None if it is nobody's."""
        if not token or len(token) > _LONGEST:
            return None
        # Found by its hash: how long that takes says nothing of the token.
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        for known, name in self._file.current.get(digest[:8], {}).items():
            if hmac.compare_digest(known, digest):
                return name
        return None


def read_tokens(path: Path) -> Mapping[bytes, Mapping[bytes, str]]:
    """Names by hashes, those by their first bytes. Raises BadTokenFile."""
    found: dict[bytes, dict[bytes, str]] = {}
    for number, name, rest in lines_of(path, BadTokenFile):
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
