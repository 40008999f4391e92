"""Checks the names of certificates and of their hosts before they become parts of file names or
certificates.

A certificate's name is the name of its file, and the common name of its subject, by which servers
identify a client. So it consists of letters, digits, `.`, `_` and `-`, and cannot leave the folder.
"""

import ipaddress
import re
from typing import Final

AUTHORITY: Final = "ca"
REVOKED: Final = "revoked"
MOST_HOSTS: Final = 100

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # X.509's limit is 64
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_MOST_HOST: Final = 253


class BadName(ValueError):
    """A name is invalid; the message says why."""


def check_name(name: str) -> str:
    """Returns the name if it is valid. Raises BadName."""
    if not _NAME.fullmatch(name):
        raise BadName(
            f"{name!r} is not a certificate name: use at most 64 letters, digits, ., _ and -, "
            "beginning with a letter or a digit"
        )
    if name in {AUTHORITY, REVOKED}:
        raise BadName(f"{name!r} is reserved for a file of the authority")
    return name


def check_host(host: str) -> str:
    """Returns a valid DNS name, which may begin with `*.`, or address. Raises BadName.

    `*` stands for one label; OpenSSL requires at least two labels after it.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        labels = host.removeprefix("*.").split(".")
    if host.startswith("*.") and len(labels) < 2:
        raise BadName(f"{host!r} is not a valid wildcard: at least two labels must follow the *")
    if len(host) > _MOST_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise BadName(f"{host!r} is not a host name such as web-1.example, or an address")
    if labels[-1].isdigit():
        raise BadName(f"{host!r} is not an address, and host names cannot end with a number")
    return host


def check_authority_name(name: str) -> str:
    """Returns the display name of an authority if it is valid. Raises BadName."""
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise BadName(f"{name!r} is not an authority name: use 1 to 64 printable characters")
    return name
