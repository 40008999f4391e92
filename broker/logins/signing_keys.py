"""The keys that verify tokens: a JWK Set (RFC 7517), from a file or a URL.

Rule 1: a set that cannot be loaded leaves the previous one in force; this is logged once, when it
        begins. Without any set, logins by token are refused.
Rule 2: a token that names an unknown key has the set loaded again, at most once in some seconds,
        whatever clients send. Otherwise it is loaded again each hour, a file every ten seconds, so
        that keys revoked by the issuer disappear.
Rule 3: attempts that need a load wait for the one under way.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from ground.http.client import HttpClient, HttpError, parse_url
from ground.known_types import known_type
from ground.tls.client import BadTls, ClientTls, Tls

# Of each algorithm: the kind of its key, and the curve.
ALGORITHMS: Final = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
}
AGAIN_S: Final = 10.0  # after which an unknown key triggers another load
_HOUR: Final = 3_600.0
_WITHIN_S: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024
_MOST_KEYS: Final = 200
_SIZES: Final = range(2_048, 8_193)  # of RSA keys, in bits
_PUBLIC: Final = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")

log = logging.getLogger(__name__)


class NoKeys(Exception):
    """Raised when no keys are available. The message completes a sentence."""


class UnknownKey(Exception):
    """Raised when the issuer has no key with the token's id."""


class _SigningKey(msgspec.Struct, frozen=True):
    kid: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    key: Any  # joserfc's, which is imported only where tokens are verified


class _Set(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class KeySource(Protocol):
    """The place that the key set is loaded from; its text contains no secret."""

    good_for: float
    """Seconds after which it is loaded again."""

    def read(self) -> bytes:
        """Reads the key set. Raises NoKeys. Runs on a thread."""
        ...


class SigningKeys:
    """The current signing keys. Belongs to the event loop."""

    def __init__(self, source: KeySource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._keys: tuple[_SigningKey, ...] = ()
        self._read_at = float("-inf")
        self._trouble = ""
        self._lock = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None

    async def find(self, algorithm: str, kid: str | None) -> Any:
        """Returns the key to verify with. Raises UnknownKey; NoKeys if no set could be loaded."""
        age = self._clock() - self._read_at
        keys = self._matching(algorithm, kid)
        if keys is None and age >= AGAIN_S:
            await self._renew(AGAIN_S)
            keys = self._matching(algorithm, kid)
        elif age >= self._source.good_for and self._renewing is None:
            # This load is not awaited: the known keys stay valid meanwhile.
            self._renewing = asyncio.ensure_future(self._renew(self._source.good_for))
            self._renewing.add_done_callback(self._renewed)
        if keys is None and not self._keys:
            raise NoKeys(f"no keys of the issuer are available: {self._trouble}")
        if keys is None:
            raise UnknownKey
        return keys

    def _renewed(self, _: asyncio.Task[None]) -> None:
        self._renewing = None

    def _matching(self, algorithm: str, kid: str | None) -> Any:
        kind, curve = ALGORITHMS[algorithm]
        matching_keys = [
            key.key
            for key in self._keys
            if key.kind == kind
            and key.curve == curve
            and key.algorithm in {None, algorithm}
            and kid in {None, key.kid}
        ]
        # If several keys match, none is chosen.
        return matching_keys[0] if len(matching_keys) == 1 else None

    async def _renew(self, age: float) -> None:
        async with self._lock:
            if self._clock() - self._read_at < age:
                return
            try:
                self._keys = _read_set(await asyncio.to_thread(self._source.read))
                self._trouble = ""
            except NoKeys as error:
                if not self._trouble:
                    log.error("cannot load the issuer's keys source=%s why=%s", self._source, error)
                self._trouble = str(error)
            self._read_at = self._clock()


class KeysFile:
    """A key set in a file."""

    def __init__(self, path: Path) -> None:
        self.good_for = AGAIN_S
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                return file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise NoKeys(f"cannot read {self._path}: {(error.strerror or '').lower()}") from None


class KeysUrl:
    """A key set at a URL."""

    def __init__(self, url: str, ca: str = "") -> None:
        self.good_for = _HOUR
        self._url = parse_url(url)
        self._tls = ClientTls(Tls(ca=ca)) if ca else None

    def __str__(self) -> str:
        return str(self._url)

    def read(self) -> bytes:
        target = f"?{self._url.query}" if self._url.query else ""
        try:
            tls = None if self._tls is None else self._tls.context
            with HttpClient(self._url, tls=tls, most_bytes=_MOST_BYTES) as client:
                answer = client.ask("GET", target, within=_WITHIN_S)
        except HttpError as error:
            raise NoKeys(str(error)) from None
        except BadTls as error:
            raise NoKeys(f"{self._url}: {error}") from None
        if answer.status != 200:
            raise NoKeys(f"{self._url} answered with status {answer.status}")
        return answer.body


def _read_set(data: bytes) -> tuple[_SigningKey, ...]:
    """The keys of a set that can verify tokens; others may be in it for other uses."""
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError
        jwks = msgspec.json.decode(data, type=known_type(_Set)).keys
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors, too
        raise NoKeys("not a JWK Set") from None
    keys = [key for entry in jwks[:_MOST_KEYS] if (key := _read_key(entry)) is not None]
    if not keys:
        raise NoKeys("the JWK Set has no key that can verify a token")
    return tuple(keys)


def _read_key(jwk: dict[str, Any]) -> _SigningKey | None:
    from joserfc.errors import JoseError  # noqa: PLC0415 -- only where tokens are checked
    from joserfc.jwk import ECKey, RSAKey  # noqa: PLC0415

    if jwk.get("use", "sig") != "sig":
        return None
    public: Any = {name: jwk[name] for name in _PUBLIC if isinstance(jwk.get(name), str)}
    kind, kid, algorithm = public.get("kty"), public.pop("kid", None), public.pop("alg", None)
    try:
        if kind == "RSA":
            rsa = RSAKey.import_key(public)
            if rsa.public_key.key_size not in _SIZES:
                return None
            return _SigningKey(kid, kind, None, algorithm, rsa)
        if kind == "EC":
            ec = ECKey.import_key(public)
            return _SigningKey(kid, kind, ec.curve_name, algorithm, ec)
    except (JoseError, ValueError, TypeError, KeyError):
        pass
    return None
