"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), as in Apache Kafka.

    client   n,,n=alice,r=CNONCE                       its name
    broker   r=CNONCE+SNONCE,s=SALT,i=ITERATIONS       how its password was salted
    client   c=biws,r=CNONCE+SNONCE,p=PROOF            proof that it knows the password
    broker   v=SIGNATURE                               proof that the broker knows it, too

The broker's part of the nonce is new each time, so an overheard exchange cannot be replayed. There
is no channel binding, as in Kafka, and no delegation tokens.
"""

import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from broker.logins.exchange import StepResult, refused, text_of
from broker.logins.known_users import Checked, KnownUsers
from ground.logins.scram import ScramMechanism

_MOST_BYTES: Final = 4_096
_FIRST: Final = re.compile(
    r"(?P<header>[ny],(?:a=(?P<authzid>[^,\x00]+))?,)"
    r"(?P<bare>n=(?P<name>[^,\x00]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]{1,1024})"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*))"
)
_FINAL: Final = re.compile(
    r"(?P<unproven>c=(?P<header>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,[A-Za-z]+=[^,\x00]+)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_BY_TOKEN: Final = re.compile(r",tokenauth=true\b", re.IGNORECASE)


def new_nonce() -> str:
    return secrets.token_urlsafe(24)


class ScramExchange:
    """One login attempt, of two steps."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        users: KnownUsers,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self._mechanism = mechanism
        self._users = users
        self._nonce = nonce
        self._said = ""  # of both sides, before the last message
        self._header = ""
        self._both_nonces = self._nonce_twice = ""
        self._user = ""
        self._checked: Checked | None = None

    async def step(self, data: bytes) -> StepResult:
        text = text_of(self._mechanism, data, _MOST_BYTES)
        return self._first(text) if self._checked is None else self._final(text, self._checked)

    def _first(self, text: str) -> StepResult:
        message = _FIRST.fullmatch(text)
        if message is None:
            raise refused(self._mechanism, "malformed first SCRAM message")
        user = self._user = _name(message["name"])
        if not user:
            raise refused(self._mechanism, "malformed name in the first SCRAM message")
        if message["authzid"] is not None and _name(message["authzid"]) != user:
            raise refused(self._mechanism, "authorization id differs from the user name", user=user)
        if _BY_TOKEN.search(message["extensions"]):
            raise refused(self._mechanism, "delegation tokens are not supported", user=user)
        self._checked = self._users.of_mechanism(user, self._mechanism)
        credential = self._checked.credential
        self._header = message["header"]
        self._both_nonces = message["nonce"] + self._nonce()
        self._nonce_twice = message["nonce"] + self._both_nonces
        salt = b64encode(credential.salt).decode()
        answer = f"r={self._both_nonces},s={salt},i={credential.iterations}"
        self._said = f"{message['bare']},{answer}"
        return StepResult(answer.encode())

    def _final(self, text: str, checked: Checked) -> StepResult:
        user = self._user
        message = _FINAL.fullmatch(text)
        if message is None:
            raise refused(self._mechanism, "malformed last SCRAM message", user=user)
        # librdkafka before 2.6 repeats its own part; Apache Kafka accepts that, too.
        if message["nonce"] not in {self._both_nonces, self._nonce_twice}:
            raise refused(self._mechanism, "the nonce belongs to another attempt", user=user)
        proof = _decoded(message["proof"])
        if _decoded(message["header"]) != self._header.encode():
            raise refused(
                self._mechanism, "the two SCRAM messages contradict each other", user=user
            )
        auth_message = f"{self._said},{message['unproven']}".encode()
        is_right = checked.credential.proves(proof, auth_message)
        if not checked.exists:
            raise refused(
                self._mechanism,
                f"unknown user, or the user has no {self._mechanism} password",
                user=user,
            )
        if not is_right:
            raise refused(self._mechanism, "wrong password", user=user)
        signature = b64encode(checked.credential.signature(auth_message)).decode()
        return StepResult(f"v={signature}".encode(), user)


def _name(text: str) -> str:
    """A name in SCRAM's encoding; "" if it is malformed."""
    if "=" in text.replace("=2C", "").replace("=3D", ""):
        return ""
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    """Malformed base64 becomes an empty value, which matches nothing."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
