"""Where a cluster is, and how a client gets in: what everything that connects to it is given.

An `Access` is a `Security` in use. What may be kept between connections is kept in it, for all that
is configured alike in a program; secrets and certificates are read anew when they have changed.
"""

from functools import cache
from typing import Final, Self

import msgspec

from client.addresses import Address, parse_addresses
from client.credentials import Credentials
from client.security import Security
from ground.tls import ClientTls


class Access:
    """How one gets in; any thread may ask."""

    def __init__(self, security: Security) -> None:
        self.credentials = Credentials(security.login) if security.login else None
        self.tls = ClientTls(security.tls) if security.tls is not None else None
        self._certificate = security.tls.certificate if security.tls is not None else ""

    @property
    def who(self) -> str:
        """Who one is to the brokers, in words, as far as it is known here."""
        if self.credentials is not None:
            return self.credentials.who
        if self._certificate:
            return f"the owner of certificate {self._certificate}"
        return NOBODY


NOBODY: Final = "User:ANONYMOUS (there is no login)"
access_to = cache(Access)
IN_THE_CLEAR: Final = access_to(Security())  # and as nobody


class Bootstrap(msgspec.Struct, frozen=True):
    """Some brokers of a cluster, and how one gets in there."""

    addresses: tuple[Address, ...]
    access: Access = IN_THE_CLEAR

    @classmethod
    def of(cls, brokers: str, security: Security | None = None) -> Self:
        """Reads `a:9092,b`. Raises BadAddress."""
        return cls(parse_addresses(brokers), access_to(security or Security()))

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))
