"""Logins with tokens: a file with a line for each, the token as a hash.

  ci-builds:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bdf39e2f2f9b5c7a1e0ff

A token is long and random, so a fast hash protects it: trying all tokens is infeasible. (Passwords
belong in a `password_file`.) A changed file is reread; if it cannot be read, or has an invalid
line, the previous content stays in force, and that is logged once.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ground.files.reloaded_files import Exchanged
from ground.logins.login_files import check_name, lines_of

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_LONGEST: Final = 16 * 1024


class BadTokenFile(Exception):
    """The file is unusable; the message names file and line."""


class TokenFile:
    """The tokens in one file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises BadTokenFile."""
        self._file = Exchanged(
            (str(path),),
            lambda: read_tokens(path),
            unusable=BadTokenFile,
            what="tokens",
        )
        _ = self._file.current

    def name_of(self, token: str) -> str | None:
        """Returns the token's owner; None for an unknown token."""
        if not token or len(token) > _LONGEST:
            return None
        # Looked up by hash, so that the time reveals nothing about the token.
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        for known_digest, name in self._file.current.get(digest[:8], {}).items():
            if hmac.compare_digest(known_digest, digest):
                return name
        return None


def read_tokens(path: Path) -> Mapping[bytes, Mapping[bytes, str]]:
    """Parses names by hash, grouped by the hash's first bytes. Raises BadTokenFile."""
    tokens: dict[bytes, dict[bytes, str]] = {}
    for line_number, name, rest in lines_of(path, BadTokenFile):
        match = _HASH.fullmatch(rest.strip())
        try:
            check_name(name)
        except ValueError:
            match = None
        if match is None:
            raise BadTokenFile(f"{path}, line {line_number}: expected `name:sha256:…`")
        digest = bytes.fromhex(match[1])
        tokens.setdefault(digest[:8], {})[digest] = name
    return tokens
