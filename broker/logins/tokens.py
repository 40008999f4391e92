"""OAuth tokens (JWT, RFC 7519): their validity, principal and expiry.

Rule 1: only signatures by asymmetric keys are accepted: RS256, RS384, RS512, PS256, ES256, ES384.
        `none` is rejected, and so are the HS… algorithms, by which a verifier could forge tokens.
Rule 2: a token must have the configured issuer and audience, and an expiry. Its claims are not read
        before its signature is verified.
Rule 3: errors contain nothing of a token but the names of its key, issuer and algorithm.
"""

import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from broker.logins.signing_keys import ALGORITHMS, NoKeys, SigningKeys, UnknownKey
from ground.http.client import parse_url
from ground.known_types import known_type
from ground.printable import one_line
from ground.settings import FilePath, Seconds, Url

__all__ = ["BadToken", "NoKeys", "ProvenToken", "TokenRules", "Tokens"]

_LONGEST_LIFE: Final = 86_400.0  # clients with longer tokens authenticate again
_LONGEST_NAME: Final = 256
_SHOWN: Final = 100
_LONGEST_HEADER: Final = 8_192


class TokenRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for tokens of clients that log in by OAUTHBEARER."""

    issuer: str
    """The required issuer of a token: its `iss`."""
    audience: str
    """The required audience of a token: its `aud`, or one of them."""
    keys_url: Url = ""
    """The URL of the issuer's public keys (a JWK Set). Loaded again each hour, and when a token
    names an unknown key."""
    keys_file: FilePath = ""
    """A file with the issuer's public keys, instead of `keys_url`. Read again every ten seconds
    while clients log in."""
    keys_ca: FilePath = ""
    """Certificates (PEM) of the authorities that may sign the certificate of an https `keys_url`.
    Default: the system's."""
    user_claim: str = "sub"
    """The claim with the user's name."""
    leeway_seconds: Seconds = 30.0
    """How far the issuer's clock may be off, at most 300."""

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience or not self.user_claim:
            raise ValueError("`issuer`, `audience` and `user_claim` must not be empty")
        if bool(self.keys_url) == bool(self.keys_file):
            raise ValueError("set either `keys_url` or `keys_file`")
        if self.keys_ca and not self.keys_url:
            raise ValueError("`keys_ca` needs a `keys_url`")
        if self.keys_url:
            parse_url(self.keys_url)
        if not 0 <= self.leeway_seconds <= 300:
            raise ValueError("`leeway_seconds` must be between 0 and 300")


class BadToken(Exception):
    """Raised for a rejected token; the message has the reason, and completes a sentence."""


class ProvenToken(msgspec.Struct, frozen=True):
    """The principal of a verified token, and its expiry by the monotonic clock."""

    principal: str
    ends_at: float


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str | None = None


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    aud: str | list[str]
    exp: float
    nbf: float | None = None


class Tokens:
    """Verifies tokens. Belongs to the event loop. `now` is in seconds since 1970, as in tokens."""

    def __init__(
        self,
        rules: TokenRules,
        keys: SigningKeys,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = rules
        self._keys = keys
        self._now = now
        self._monotonic = monotonic

    async def check(self, token: str) -> ProvenToken:
        """Verifies a token. Raises BadToken; NoKeys if tokens cannot be verified at the moment."""
        header = _header(token)
        if header.alg not in ALGORITHMS:
            raise BadToken(f"the token is signed with {_shown(header.alg)}, which is not accepted")
        try:
            key = await self._keys.find(header.alg, header.kid)
        except UnknownKey:
            description = (
                "names no key" if header.kid is None else f"names key {_shown(header.kid)}"
            )
            raise BadToken(f"the token {description}, which the issuer does not have") from None
        return self._proven(_verified(token, header.alg, key))

    def _proven(self, payload: bytes) -> ProvenToken:
        rules, now = self._rules, self._now()
        try:
            claims = msgspec.json.decode(payload, type=known_type(_Claims))
            claims_by_name = msgspec.json.decode(payload, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError):
            raise BadToken("the token lacks `iss`, `aud` or `exp`") from None
        if claims.iss != rules.issuer:
            raise BadToken(f"the token is from another issuer, {_shown(claims.iss)}")
        audience = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if rules.audience not in audience:
            raise BadToken("the token is for another audience")
        if now >= claims.exp + rules.leeway_seconds:
            raise BadToken("the token has expired")
        if claims.nbf is not None and now < claims.nbf - rules.leeway_seconds:
            raise BadToken("the token is not valid yet")
        user = claims_by_name.get(rules.user_claim)
        if not isinstance(user, str) or not user or len(user) > _LONGEST_NAME:
            raise BadToken(f"the token has no user name in `{rules.user_claim}`")
        if not user.isprintable():
            raise BadToken(f"the user name in `{rules.user_claim}` has unprintable characters")
        seconds = min(claims.exp + rules.leeway_seconds - now, _LONGEST_LIFE)
        return ProvenToken(user, self._monotonic() + seconds)


def _header(token: str) -> _Header:
    text, dot, _ = token.partition(".")
    try:
        if not dot or len(text) > _LONGEST_HEADER:
            raise ValueError
        return msgspec.json.decode(
            urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=known_type(_Header)
        )
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors, too
        raise BadToken("not a token") from None


def _verified(token: str, algorithm: str, key: Any) -> bytes:
    """The token's claims, once its signature is verified."""
    # Only brokers that accept tokens need it.
    from joserfc.errors import JoseError  # noqa: PLC0415
    from joserfc.jws import JWSRegistry, deserialize_compact  # noqa: PLC0415

    # The rest of the header is ignored, except parameters that it declares critical.
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = _LONGEST_HEADER
    registry.max_signature_length = 2_048
    try:
        return deserialize_compact(token, key, registry=registry).payload
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise BadToken("the token's signature is invalid") from None


def _shown(text: str) -> str:
    return repr(one_line(text[:_SHOWN]))
