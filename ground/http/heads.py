"""Rejects request heads that two programs may parse differently. Pure.

A proxy that sees another header, or another end of the body, can be made to smuggle a request under
another client's name (RFC 9112, 11.2). llhttp, the registry's parser, rejects such heads by itself;
servers with a more lenient parser check them here.
"""

import re
from typing import Final

_ENDS: Final = (b"\n\r\n", b"\n\n")  # as the mildest reader has it
_BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLDED: Final = re.compile(rb"\n[ \t]")
_LENGTH: Final = re.compile(rb"^content-length[ \t]*:(.*)\r$", re.IGNORECASE | re.MULTILINE)
_CHUNKED: Final = re.compile(rb"^transfer-encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)


class AmbiguousHead(ValueError):
    """An ambiguous head; the message names the fault."""


def check_head(data: bytes) -> None:
    """Checks the head at the beginning of `data`, which may be incomplete. Raises AmbiguousHead."""
    ends = [position + len(end) for end in _ENDS if (position := data.find(end)) >= 0]
    head = data[: min(ends, default=0)]
    if _BARE.search(head):
        raise AmbiguousHead("CR and LF are allowed only together, at the end of a line")
    if _FOLDED.search(head):
        raise AmbiguousHead("a header is one line")
    lengths = _LENGTH.findall(head)
    is_plain = len(lengths) == 1 and lengths[0].strip(b" \t").isdigit()
    if lengths and (not is_plain or _CHUNKED.search(head)):
        raise AmbiguousHead("a body has one length: Content-Length once, or Transfer-Encoding")
