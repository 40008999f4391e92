"""The peer of a connection, and the caller behind a request."""

from typing import Final

import msgspec

from registry.access.permissions import EVERYTHING, Rights

PRINCIPAL: Final = "penstock-principal"  # on a forwarded request: the original caller


class Peer(msgspec.Struct, frozen=True):
    """The other end of a connection. `certified` is the name in the client's certificate; empty
    without one."""

    host: str
    certified: str = ""


NO_PEER: Final = Peer("")


class Caller(msgspec.Struct, frozen=True):
    """The principal behind a request. `name` is empty where no login is required."""

    name: str
    rights: Rights
    host: str = ""


ANYBODY: Final = Caller("", EVERYTHING)
