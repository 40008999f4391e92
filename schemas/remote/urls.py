"""Where a registry is: `http://host:port`, several of them separated by commas."""

from ground.http_client import HttpUrl, parse_program_url

__all__ = ["parse_urls"]


def parse_urls(text: str) -> tuple[HttpUrl, ...]:
    """Read `http://a:8081,https://b`. ValueError says what is wrong, never showing a password."""
    return tuple(_parse(part.strip()) for part in text.split(","))


def _parse(text: str) -> HttpUrl:
    try:
        return parse_program_url(text)
    except ValueError as error:
        shown = "registry" if "@" in text else f"registry {text!r}"
        raise ValueError(f"{shown}: {error}") from None
