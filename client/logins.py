"""What a client says to prove who it is, by SASL's mechanisms: one generator for each that has a
secret. No I/O.

A generator yields what is sent and is sent what came; it ends when nothing more is to be said, and
the broker's last word was right. Whatever it raises is `LoginFailed`; no message holds a secret.

With SCRAM the broker proves too that it knows the password: who only pretends to be a broker is
found out.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Mapping
from typing import Final

from client.security import Login, Mechanism

Exchange = Generator[bytes, bytes, None]

_FEWEST_ITERATIONS: Final = 4_096  # the standard's, and Kafka's
_MOST_ITERATIONS: Final = 1_000_000  # half a second; a broker that asks for more wants our time
_LONGEST_NONCE: Final = 1_024


class LoginFailed(Exception):
    """Why, for the end of a sentence."""


class LoginRefused(LoginFailed):
    """The broker heard it out, and says no."""


def exchange(login: Login, secret: str) -> Exchange:
    """What is said. `secret` is the password, or the token; GSSAPI, which has none, is
    `client.kerberos`."""
    return _WITH_SECRET[login.mechanism](login.user, secret)


def _plain(user: str, password: str) -> Exchange:
    if "\0" in user or "\0" in password:
        raise LoginFailed("PLAIN has no way to send a user or password with a NUL in it")
    yield f"\0{user}\0{password}".encode()


def _bearer(_: str, token: str) -> Exchange:
    if not token.isprintable() or not token.isascii():
        raise LoginFailed("the token is none: it has a line break, or letters that none may have")
    refusal = yield f"n,,\1auth=Bearer {token}\1\1".encode()
    if refusal:
        yield b"\1"  # the broker explains itself, and wants this before it says no


def _nonce() -> str:
    return secrets.token_urlsafe(24)


def scram(hash_name: str, user: str, password: str, nonce: Callable[[], str]) -> Exchange:
    """RFC 5802, without channel binding, as Kafka has it."""
    mine = nonce()
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={mine}"
    server_first = _text((yield f"n,,{first}".encode()))
    said = _attributes(server_first)
    theirs, salt, iterations = said.get("r", ""), _decoded(said.get("s", "")), said.get("i", "")
    if not theirs.startswith(mine) or len(theirs) == len(mine) or len(theirs) > _LONGEST_NONCE:
        raise LoginFailed("the broker's answer to SCRAM is not one to what was asked")
    if not salt or not iterations.isascii() or not iterations.isdigit() or len(iterations) > 9:
        raise LoginFailed("the broker's answer to SCRAM cannot be understood")
    if not _FEWEST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
        raise LoginFailed(f"the broker asks for {int(iterations)} iterations of SCRAM's hash")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, int(iterations))
    final = f"c=biws,r={theirs}"
    signed = f"{first},{server_first},{final}".encode()
    key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, key).digest(), signed, hash_name)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    server_final = _text((yield f"{final},p={b64encode(proof).decode()}".encode()))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if not hmac.compare_digest(_decoded(_attributes(server_final).get("v", "")), expected):
        raise LoginFailed("the broker does not know the password either: it is not who it says")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LoginFailed("the broker's answer to SCRAM cannot be understood") from None


def _attributes(text: str) -> dict[str, str]:
    return {each[:1]: each[2:] for each in text.split(",") if each[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed("the broker's answer to SCRAM cannot be understood") from None


_WITH_SECRET: Final[Mapping[Mechanism, Callable[[str, str], Exchange]]] = {
    Mechanism.PLAIN: _plain,
    Mechanism.SCRAM_SHA_256: lambda user, password: scram("sha256", user, password, _nonce),
    Mechanism.SCRAM_SHA_512: lambda user, password: scram("sha512", user, password, _nonce),
    Mechanism.OAUTHBEARER: _bearer,
}
