"""Where a registry is, and how one gets in there: what everything that asks one is given.

It is what a configuration says, with names of files and variables and no secret in it: it may
travel to Spark's executors, through plans and logs.
"""

from typing import Self

import msgspec

from ground.http_security import HttpSecurity, check_scheme
from schemas.remote.urls import parse_urls

__all__ = ["RegistryAddress", "check_registry"]

NOBODY = HttpSecurity()


class RegistryAddress(msgspec.Struct, frozen=True):
    """`urls` are those of one registry's instances: `https://a:8081,https://b:8081`."""

    urls: str
    security: HttpSecurity = NOBODY

    @classmethod
    def of(cls, said: "str | RegistryAddress") -> Self:
        """URLs alone are those of a registry that wants to know nothing."""
        return cls(said) if isinstance(said, str) else cls(said.urls, said.security)

    def __str__(self) -> str:
        return self.urls


def check_registry(urls: str, security: HttpSecurity) -> None:
    """Raises ValueError, which names the configuration's key."""
    try:
        parsed = parse_urls(urls)
    except ValueError as error:
        raise ValueError(f"`registry`: {error}") from None
    try:
        for url in parsed:
            check_scheme(security, url.scheme)
    except ValueError as error:
        raise ValueError(f"`registry_security`: {error}") from None
