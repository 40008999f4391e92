"""Checks the names of certificates and their hosts, before they become file names or bytes.

A certificate's name is its file's and its subject's common name, which is who a client is to a
server that believes it. So it has letters, digits, `.`, `_` and `-`, and never leads elsewhere.
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
    """Says what is wrong with it."""


def check_name(name: str) -> str:
    """The name. Raises BadName."""
    if not _NAME.fullmatch(name):
        raise BadName(
            f"{name!r} is no name of a certificate: at most 64 letters, digits, ., _ and -, "
            "the first a letter or a digit"
        )
    if name in {AUTHORITY, REVOKED}:
        raise BadName(f"{name!r} is the name of a file of the authority's own")
    return name


def check_host(host: str) -> str:
    """A name in DNS, `*.` before it or not, or an address. Raises BadName.

    `*` stands for one label, and OpenSSL takes it before two others at least.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        labels = host.removeprefix("*.").split(".")
    if host.startswith("*.") and len(labels) < 2:
        raise BadName(f"{host!r} is not a valid wildcard: at least two labels must follow the *")
    if len(host) > _MOST_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise BadName(f"{host!r} is no host: a name such as web-1.example or an address")
    if labels[-1].isdigit():
        raise BadName(f"{host!r} is no address, and no name of a host ends with a number")
    return host


def check_authority_name(name: str) -> str:
    """What an authority is called by people. Raises BadName."""
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise BadName(f"{name!r} is no name of an authority: 1 to 64 printable characters")
    return name
