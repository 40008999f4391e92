"""Broker addresses: `host:port`, separated by commas."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from client.errors import BadAddress

DEFAULT_PORT: Final = 9092
_HIGHEST_PORT: Final = 65_535


class Address(NamedTuple):
    """A host name or address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parses `a:9092,b` or `[::1]:9092`; the default port is 9092."""
    return tuple(_parse(part.strip(), text) for part in text.split(","))


def check_brokers(brokers: Sequence[str]) -> None:
    """Checks the configuration key `brokers`; raises ValueError if an address is invalid."""
    if not brokers:
        raise ValueError("`brokers` must name at least one broker, such as 127.0.0.1:9092")
    try:
        parse_addresses(",".join(brokers))
    except BadAddress as error:
        raise ValueError(f"`brokers`: {error}") from None


def _parse(part: str, text: str) -> Address:
    host, colon, port = part.rpartition(":")
    if not colon or part.endswith("]"):
        host, port = part, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadAddress(f"bootstrap {text!r}: write an IPv6 address as [{part}]:{DEFAULT_PORT}")
    if not host or not host.isprintable() or any(letter in host for letter in " /@"):
        raise BadAddress(f"bootstrap {text!r}: {part!r} is not an address such as localhost:9092")
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT):
        raise BadAddress(f"bootstrap {text!r}: {port!r} is not a port")
    return Address(host, int(port))
