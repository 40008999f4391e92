"""Who is at the other end: of a connection, and behind a request."""

from typing import Final

import msgspec

from registry.access.permissions import EVERYTHING, Rights

PRINCIPAL: Final = "penstock-principal"  # of a request that a registry passes on: whose it is


class Peer(msgspec.Struct, frozen=True):
    """`certified` is what the client's certificate says that it is; empty without one."""

    host: str
    certified: str = ""


NO_PEER: Final = Peer("")


class Caller(msgspec.Struct, frozen=True):
    """`name` is empty where nobody has to log in."""

    name: str
    rights: Rights
    host: str = ""


ANYBODY: Final = Caller("", EVERYTHING)
