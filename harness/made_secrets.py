"""Secrets of tests. Each carries a mark, so that whoever finds one where none should be knows it.

`told` looks for them in what programs say: as they are, in base64 and in hex, and what has no room
for a mark by its form: private keys, signed tokens, and what is kept of passwords.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Final

MARK: Final = "OnlyForWhoLogsIn7q"


def made_secret(name: str) -> str:
    """A password, token or other secret: the same for the same name."""
    return f"{name}-{MARK}"


def _in_base64(text: str) -> Iterator[bytes]:
    """What of it is the same wherever it stands within a longer text."""
    for before in range(3):
        encoded = b64encode(bytes(before) + text.encode())
        first = -(-before * 8 // 6)
        last = (before + len(text)) * 8 // 6
        yield encoded[first:last]


_MARKED: Final = (MARK.encode(), MARK.encode().hex().encode(), *_in_base64(MARK))
# With what is looked for first, which is a hundred times as fast.
_FORMS: Final = {
    "a made secret": (_MARKED, re.compile(b"|".join(map(re.escape, _MARKED)))),
    "a private key": (
        (b" PRIVATE KEY-----",),
        re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"),
    ),
    "a signed token": (
        (b".eyJ",),
        re.compile(rb"\beyJ[\w-]{10,1000}\.eyJ[\w-]{10,4000}\.[\w-]{20}"),
    ),
    "what is kept of a password": (
        (b"stored_key=", b"server_key=", b"scrypt:"),
        re.compile(rb"(?:stored|server)_key=[\w+/]{20}|\bscrypt:\d+:\d+:\d+:[\w+/]{10}"),
    ),
}


def told(said: bytes) -> list[str]:
    """`line: what`, for each secret in it."""
    newline = b"\n"
    return [
        f"{said.count(newline, 0, found.start()) + 1}: {what}"
        for what, (begins, form) in _FORMS.items()
        if any(each in said for each in begins)
        for found in form.finditer(said)
    ]


def is_told(said: str) -> bool:
    """Whether there is a made secret in it, in what may have tokens or hashes of its own."""
    said_bytes = said.encode(errors="surrogateescape")
    return any(each in said_bytes for each in _MARKED)
