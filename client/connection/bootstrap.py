"""The address of a cluster, and the credentials for it, for all connections.

An `Access` is a `Security` in use. It caches what can be kept between connections, and is shared by
all equal configurations in a program. Secrets and certificates are reread when they change.
"""

from functools import cache
from typing import Final, Self

import msgspec

from client.connection.addresses import Address, parse_addresses
from client.connection.credentials import Credentials
from client.connection.security import Security
from ground.tls.client import ClientTls


class Access:
    """TLS and credentials for connecting to a cluster. Thread-safe."""

    def __init__(self, security: Security) -> None:
        self.credentials = Credentials(security.login) if security.login else None
        self.tls = ClientTls(security.tls) if security.tls is not None else None
        self._certificate = security.tls.certificate if security.tls is not None else ""

    @property
    def who(self) -> str:
        """A description of the client as the brokers see it, as far as the client knows."""
        if self.credentials is not None:
            return self.credentials.who
        if self._certificate:
            return f"the owner of certificate {self._certificate}"
        return NOBODY


NOBODY: Final = "User:ANONYMOUS (there is no login)"
access_to = cache(Access)
IN_THE_CLEAR: Final = access_to(Security())  # without a login


class Bootstrap(msgspec.Struct, frozen=True):
    """Addresses of some brokers of a cluster, and how to authenticate there."""

    addresses: tuple[Address, ...]
    access: Access = IN_THE_CLEAR

    @classmethod
    def of(cls, brokers: str, security: Security | None = None) -> Self:
        """Parses `a:9092,b`. Raises BadAddress."""
        return cls(parse_addresses(brokers), access_to(security or Security()))

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))
