"""The listeners of a secured broker, as settings for foreign clients, and settings that fail.

Alice may do everything with topics, bob nothing.
"""

import time
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from harness.penstock.secured_broker import USERS, SecuredBroker

TOPIC: Final = "common"

Listener = Literal["LOCKED", "KNOWN", "PLAIN", "BROKERS"]
_WITHOUT_TLS: Final = {"PLAIN"}
BEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", BEARER)


class Door(msgspec.Struct, frozen=True):
    """Without a mechanism it uses a certificate, if `right`; wrong credentials fail."""

    listener: Listener
    mechanism: str = ""
    user: str = "alice"
    right: bool = True

    def __str__(self) -> str:
        wrong = "" if self.right else " wrongly"
        return f"{self.listener} by {self.mechanism or 'certificate'} as {self.user}{wrong}"


OPEN: Final = (
    *(Door("LOCKED", mechanism) for mechanism in MECHANISMS),
    Door("KNOWN"),
    Door("PLAIN", "SCRAM-SHA-256"),
    Door("PLAIN", "SCRAM-SHA-512"),
    Door("BROKERS", "SCRAM-SHA-512"),
)
# Who is not let in, and who is and may not write; in whatever words a client has for it. Of wrong
# passwords there are few: a broker lets one address wait the longer, the more there were.
NOT_LET_IN: Final = r"(?i)authentication.?(failed|error)|invalid.credentials"
NOT_ALLOWED: Final = r"(?i)not.?authorized|authorization.?failed"
# Of a token that is refused, clients are told in a message of OAUTHBEARER's own, which franz-go
# expects as little as kafkajs does: that one goes on, and is cut off.
NO_SUCH_TOKEN: Final = rf"{NOT_LET_IN}|unexpected data in oauth response|closed connection"
CLOSED: Final = {
    Door("LOCKED", "SCRAM-SHA-256", right=False): NOT_LET_IN,
    Door("LOCKED", BEARER, right=False): NO_SUCH_TOKEN,
    Door("BROKERS", "PLAIN"): r"(?i)mechanism",
    Door("KNOWN", right=False): r"(?i)certificate|handshake|ssl|tls|clos|disconnect|EOF",
    Door("LOCKED", "SCRAM-SHA-512", "bob"): NOT_ALLOWED,
    Door("LOCKED", BEARER, "bob"): NOT_ALLOWED,
    Door("KNOWN", user="bob"): NOT_ALLOWED,
}


class Way(msgspec.Struct, frozen=True):
    """The settings of a client; empty ones are unused."""

    name: str
    address: str
    ca: str
    certificate: str
    key: str
    certificate_and_key: str
    mechanism: str
    user: str
    secret: str
    now: int
    """In seconds since 1970, for who cannot see the tests' clock."""
    topic: str = TOPIC


def way(secured: SecuredBroker, door: Door) -> Way:
    port: int = getattr(secured, door.listener.lower())
    shows = not door.mechanism and door.right
    shown = secured.authority.sign(door.user) if shows else None
    return Way(
        name=str(door),
        address=f"127.0.0.1:{port}",
        ca="" if door.listener in _WITHOUT_TLS else str(secured.authority.ca),
        certificate=str(shown.certificate) if shown else "",
        key=str(shown.key) if shown else "",
        certificate_and_key=str(shown.both) if shown else "",
        mechanism=door.mechanism,
        user=door.user,
        secret=_secret(secured, door),
        now=int(time.time()),
    )


def as_json(secured: SecuredBroker, doors: Iterable[Door]) -> str:
    """The form for our programs that use clients in other languages."""
    return msgspec.json.encode([way(secured, door) for door in doors]).decode()


def _secret(secured: SecuredBroker, door: Door) -> str:
    """A password or a token; empty for a certificate."""
    if door.mechanism == BEARER:
        return secured.token(door.user) if door.right else secured.token(door.user, aud="others")
    if not door.mechanism:
        return ""
    return USERS[door.user] if door.right else "wrong"
