"""The address of a registry and the credentials for it, for all code that uses a registry.

It holds the configuration, with names of files and variables but no secrets, since it may travel to
Spark's executors through plans and logs.
"""

from typing import Self

import msgspec

from ground.http.security import HttpSecurity, check_scheme
from schemas.remote.urls import parse_urls

__all__ = ["RegistryAddress", "check_registry"]

NOBODY = HttpSecurity()


class RegistryAddress(msgspec.Struct, frozen=True):
    """A registry's address. `urls` are those of its instances: `https://a:8081,https://b:8081`."""

    urls: str
    security: HttpSecurity = NOBODY

    @classmethod
    def of(cls, address: "str | RegistryAddress") -> Self:
        """Returns the address for plain URLs, which mean a registry without a login."""
        return cls(address) if isinstance(address, str) else cls(address.urls, address.security)

    def __str__(self) -> str:
        return self.urls


def check_registry(urls: str, security: HttpSecurity) -> None:
    """Checks the URLs with these credentials. Raises ValueError that names the configuration's
    key."""
    try:
        parsed_urls = parse_urls(urls)
    except ValueError as error:
        raise ValueError(f"`registry`: {error}") from None
    try:
        for url in parsed_urls:
            check_scheme(security, url.scheme)
    except ValueError as error:
        raise ValueError(f"`registry_security`: {error}") from None
