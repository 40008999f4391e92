"""Who may have been let in? A judge of one connection's bytes, who knows every password.

It reads what a client has sent and what a broker has answered, in order, and computes by itself
whether what was shown was right: with hashes alone, and nothing of the broker's logins. What must
not be is a breach:

    an answer to anything but SaslHandshake, SaslAuthenticate and ApiVersions, before a login
    a login that is taken though its password, proof or token is not the user's
    a connection that becomes another user's
    any answer after a login was refused
"""

import functools
import hashlib
import hmac
import struct
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from broker.api.table import APIS
from wire.errors import ErrorCode, ProtocolError
from wire.framing.requests import read_client_id, read_header
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest

HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
AUTHENTICATE: Final = 36
FREE: Final = frozenset({HANDSHAKE, API_VERSIONS, AUTHENTICATE})
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_EXPLAINED: Final = b'{"status":"invalid_token"}'


class Known(msgspec.Struct, frozen=True):
    """What is right: users' passwords, and tokens with whom each stands for."""

    passwords: Mapping[str, str]
    tokens: Mapping[str, str]


class Judged(msgspec.Struct):
    """`user` is who is in at the end; `refusals` were told, `served` counts what only somebody
    who is in is answered."""

    user: str = ""
    refusals: int = 0
    served: int = 0
    breaches: list[str] = []


def frames(data: bytes) -> Iterator[bytes]:
    """The complete frames, without their sizes."""
    at = 0
    while len(data) - at >= 4:
        (size,) = struct.unpack_from(">i", data, at)
        if size < 0 or len(data) - at - 4 < size:
            return
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def judge(known: Known, sent: bytes, received: bytes) -> Judged:
    """Answers are in the order of the requests."""
    referee = _Referee(known)
    answers = list(frames(received))
    asked = list(frames(sent))
    if len(answers) > len(asked):
        referee.judged.breaches.append(f"{len(answers)} answers to {len(asked)} requests")
    for request, answer in zip(asked, answers, strict=False):
        referee.read(request, answer)
    return referee.judged


class _Referee:
    def __init__(self, known: Known) -> None:
        self.judged = Judged()
        self._known = known
        self._over = False
        self._mechanism = ""
        self._first = self._challenge = ""  # of SCRAM

    def read(self, request: bytes, answer: bytes) -> None:
        key, version, correlation = read_header(memoryview(request))
        (echoed,) = struct.unpack_from(">i", answer)
        if echoed != correlation:
            self._breach(f"API {key} was answered out of turn")
        if self._over:
            self._breach(f"API {key} was answered after a refusal")
        if key not in FREE:
            self.judged.served += 1
            if not self.judged.user:
                self._breach(f"API {key} was answered before a login")
        elif key != API_VERSIONS and version in APIS[key].versions:
            self._login(key, version, memoryview(request), memoryview(answer)[4:])

    def _login(self, key: int, version: int, request: memoryview, answer: memoryview) -> None:
        api = APIS[key]
        flexible = api.is_flexible(version)
        try:
            _, body = read_client_id(request, flexible=flexible)
            asked = api.decode_request(version, body)
        except ProtocolError as error:
            self._breach(f"API {key} was answered though it cannot be read: {error}")
            return
        said = api.decode_response(version, answer[1 if flexible else 0 :])
        if said.error_code is not ErrorCode.none:
            self.judged.refusals += 1
            self._over = True
        elif isinstance(asked, SaslHandshakeRequest):
            self._mechanism, self._first = asked.mechanism, ""
        elif isinstance(asked, SaslAuthenticateRequest):
            assert isinstance(said, SaslAuthenticateResponse)
            self._step(bytes(asked.auth_bytes), bytes(said.auth_bytes))

    def _step(self, shown: bytes, answered: bytes) -> None:
        mechanism = self._mechanism
        if mechanism in _HASHES and not self._first:
            self._first = shown.decode(errors="surrogateescape")
            self._challenge = answered.decode(errors="surrogateescape")
            return
        if mechanism == "OAUTHBEARER" and answered == _EXPLAINED:
            return  # the refusal follows
        self._mechanism = ""
        user = self._proven(mechanism, shown)
        if not user:
            self._breach(f"let in by {mechanism or 'no mechanism'} with {shown[:200]!r}")
        elif self.judged.user not in {"", user}:
            self._breach(f"{self.judged.user} became {user}")
        self.judged.user = user or "somebody"

    def _proven(self, mechanism: str, shown: bytes) -> str:
        """The user whose secret it was, or ""."""
        try:
            text = shown.decode()
            if mechanism == "PLAIN":
                wanted, user, password = text.split("\0")
                is_right = self._known.passwords.get(user) == password and wanted in {"", user}
                return user if is_right else ""
            if mechanism == "OAUTHBEARER":
                token = text.partition("auth=Bearer ")[2].partition("\1")[0]
                return self._known.tokens.get(token, "")
            if mechanism in _HASHES:
                return self._proven_by_scram(_HASHES[mechanism], text)
        except (ValueError, KeyError):
            pass
        return ""

    def _proven_by_scram(self, hash_name: str, final: str) -> str:
        bare = self._first.split(",", 2)[2]
        mine = dict(each.split("=", 1) for each in bare.split(","))
        theirs = dict(each.split("=", 1) for each in self._challenge.split(","))
        user = mine["n"].replace("=2C", ",").replace("=3D", "=")
        unproven, _, proof = final.rpartition(",p=")
        shown = dict(each.split("=", 1) for each in unproven.split(","))
        header = self._first[: len(self._first) - len(bare)]
        if b64decode(shown["c"]).decode() != header:
            return ""
        # librdkafka before 2.6 says its own part twice.
        if shown["r"] not in {theirs["r"], mine["r"] + theirs["r"]}:
            return ""
        password = self._known.passwords.get(user)
        if password is None:
            return ""
        salted = _salted(hash_name, password, b64decode(theirs["s"]), int(theirs["i"]))
        key = hmac.digest(salted, b"Client Key", hash_name)
        signed = f"{bare},{self._challenge},{unproven}".encode()
        signature = hmac.digest(hashlib.new(hash_name, key).digest(), signed, hash_name)
        right = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return user if b64decode(proof) == right else ""

    def _breach(self, what: str) -> None:
        self.judged.breaches.append(what)


@functools.lru_cache(maxsize=1000)
def _salted(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
