"""The client's side of SASL: one generator for each mechanism that has a secret. No I/O.

A generator yields what to send, is sent what was received, and returns once the broker's last
message was right. All its errors are `LoginFailed`; no message contains a secret.

SCRAM also proves that the broker knows the password, which exposes impostors.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Mapping
from typing import Final

from client.connection.security import Login, Mechanism

Exchange = Generator[bytes, bytes, None]

_FEWEST_ITERATIONS: Final = 4_096  # required by the standard and by Kafka
_MOST_ITERATIONS: Final = 1_000_000  # half a second; protects against a broker that asks for more
_LONGEST_NONCE: Final = 1_024


class LoginFailed(Exception):
    """A login failed; the reason continues a sentence."""


class LoginRefused(LoginFailed):
    """The broker rejected the credentials."""


def exchange(login: Login, secret: str) -> Exchange:
    """Returns the exchange of the login's mechanism. `secret` is the password or the token; for
    GSSAPI, which has neither, see `client.connection.kerberos`."""
    return _WITH_SECRET[login.mechanism](login.user, secret)


def _plain(user: str, password: str) -> Exchange:
    if "\0" in user or "\0" in password:
        raise LoginFailed("PLAIN cannot send a user or password that contains NUL")
    yield f"\0{user}\0{password}".encode()


def _bearer(_: str, token: str) -> Exchange:
    if not token.isprintable() or not token.isascii():
        raise LoginFailed(
            "invalid token: contains a line break or a character that bearer tokens may not contain"
        )
    refusal = yield f"n,,\1auth=Bearer {token}\1\1".encode()
    if refusal:
        yield b"\1"  # the broker has sent details, and expects this before it refuses


def _nonce() -> str:
    return secrets.token_urlsafe(24)


def scram(hash_name: str, user: str, password: str, nonce: Callable[[], str]) -> Exchange:
    """Performs SCRAM (RFC 5802) without channel binding, as Kafka implements it."""
    own_nonce = nonce()
    first_message = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={own_nonce}"
    server_first = _text((yield f"n,,{first_message}".encode()))
    attributes = _attributes(server_first)
    both_nonces, iterations = attributes.get("r", ""), attributes.get("i", "")
    salt = _decoded(attributes.get("s", ""))
    if not both_nonces.startswith(own_nonce) or not (
        len(own_nonce) < len(both_nonces) <= _LONGEST_NONCE
    ):
        raise LoginFailed("the broker's SCRAM response does not match the request")
    if not salt or not iterations.isascii() or not iterations.isdigit() or len(iterations) > 9:
        raise LoginFailed("invalid SCRAM response from the broker")
    if not _FEWEST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
        raise LoginFailed(f"the broker requests {int(iterations)} SCRAM iterations")
    salted_password = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, int(iterations))
    client_final = f"c=biws,r={both_nonces}"
    auth_message = f"{first_message},{server_first},{client_final}".encode()
    key = hmac.digest(salted_password, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, key).digest(), auth_message, hash_name)
    proof = bytes(
        key_byte ^ signature_byte for key_byte, signature_byte in zip(key, signature, strict=True)
    )
    server_final = _text((yield f"{client_final},p={b64encode(proof).decode()}".encode()))
    expected_signature = hmac.digest(
        hmac.digest(salted_password, b"Server Key", hash_name), auth_message, hash_name
    )
    if not hmac.compare_digest(
        _decoded(_attributes(server_final).get("v", "")), expected_signature
    ):
        raise LoginFailed("the broker does not know the password either: it is an impostor")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LoginFailed("invalid SCRAM response from the broker") from None


def _attributes(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed("invalid SCRAM response from the broker") from None


_WITH_SECRET: Final[Mapping[Mechanism, Callable[[str, str], Exchange]]] = {
    Mechanism.PLAIN: _plain,
    Mechanism.SCRAM_SHA_256: lambda user, password: scram("sha256", user, password, _nonce),
    Mechanism.SCRAM_SHA_512: lambda user, password: scram("sha512", user, password, _nonce),
    Mechanism.OAUTHBEARER: _bearer,
}
