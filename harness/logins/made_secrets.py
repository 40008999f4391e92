"""Secrets for tests. Each contains a mark by which a leak is recognized.

`told` searches programs' output for them: verbatim, in base64 and in hex. Secrets without room for
a mark are recognized by their form: private keys, signed tokens, and password hashes.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Final

MARK: Final = "OnlyForWhoLogsIn7q"


def made_secret(name: str) -> str:
    """Returns a password, token or other secret; equal names yield equal secrets."""
    return f"{name}-{MARK}"


def _in_base64(text: str) -> Iterator[bytes]:
    """The characters of its base64 form that are the same at any position in a longer text."""
    for prefix_length in range(3):
        encoded = b64encode(bytes(prefix_length) + text.encode())
        first = -(-prefix_length * 8 // 6)
        last = (prefix_length + len(text)) * 8 // 6
        yield encoded[first:last]


_MARKED: Final = (MARK.encode(), MARK.encode().hex().encode(), *_in_base64(MARK))
# With a prefix to search for first, which is a hundred times as fast.
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
    "a password hash": (
        (b"stored_key=", b"server_key=", b"scrypt:"),
        re.compile(rb"(?:stored|server)_key=[\w+/]{20}|\bscrypt:\d+:\d+:\d+:[\w+/]{10}"),
    ),
}


def told(output: bytes) -> list[str]:
    """Returns `LINE: KIND` for each secret in the output: its line number and the kind of
    secret."""
    newline = b"\n"
    return [
        f"{output.count(newline, 0, match.start()) + 1}: {kind}"
        for kind, (beginnings, form) in _FORMS.items()
        if any(beginning in output for beginning in beginnings)
        for match in form.finditer(output)
    ]


def is_told(output: str) -> bool:
    """Whether the output contains a marked secret; other tokens or hashes in it are ignored."""
    output_bytes = output.encode(errors="surrogateescape")
    return any(mark in output_bytes for mark in _MARKED)
