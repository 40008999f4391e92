"""Who asks: what a handler may know of the connection that a request came on."""

from dataclasses import dataclass

ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Caller:
    """One client, as far as it has said and proven who it is."""

    host: str
    client_id: str | None = None
    principal: str = ANONYMOUS
