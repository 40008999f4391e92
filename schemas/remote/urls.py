"""Where a registry is: `http://host:port`, several of them separated by commas."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

__all__ = ["RegistryUrl", "parse_urls"]

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RegistryUrl:
    """One of a registry's instances; `path` is what a proxy put before the registry's own paths."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_urls(text: str) -> tuple[RegistryUrl, ...]:
    """Read `http://a:8081,https://b`. ValueError says what is wrong, never showing a password."""
    return tuple(_parse(part.strip()) for part in text.split(","))


def _parse(text: str) -> RegistryUrl:
    if "@" in text:
        raise ValueError("registry: a user and password in the URL are not supported")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"registry {text!r}: not a URL such as http://localhost:8081") from None
    if parts.scheme not in _PORTS or not text.lower().startswith(f"{parts.scheme}://"):
        raise ValueError(f"registry {text!r}: a URL begins with http:// or https://")
    if why := _objection(parts, port):
        raise ValueError(f"registry {text!r}: {why}")
    assert parts.hostname is not None
    path = parts.path.rstrip("/")
    return RegistryUrl(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


def _objection(parts: SplitResult, port: int | None) -> str:
    host = parts.hostname
    if not host or not all(letter.isascii() and letter.isprintable() for letter in parts.path):
        return "not a URL such as http://localhost:8081"
    if not host.isprintable() or " " in host or " " in parts.path:
        return "not a URL such as http://localhost:8081"
    if port == 0:
        return "0 is not a port"
    if parts.query or parts.fragment:
        return "nothing may follow the path"
    return ""
