"""Parses URLs of a registry: `http://host:port`, several separated by commas."""

from ground.http.client import HttpUrl, parse_program_url

__all__ = ["parse_urls"]


def parse_urls(text: str) -> tuple[HttpUrl, ...]:
    """Parses `http://a:8081,https://b`. Raises ValueError, whose text never shows a password."""
    return tuple(_parse(part.strip()) for part in text.split(","))


def _parse(text: str) -> HttpUrl:
    try:
        return parse_program_url(text)
    except ValueError as error:
        registry_name = "registry" if "@" in text else f"registry {text!r}"
        raise ValueError(f"{registry_name}: {error}") from None
