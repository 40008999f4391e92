"""SCRAM's arithmetic (RFC 5802): what is kept of a password, and what proves that one knows it.

What is kept (a `ScramCredential`) lets nobody log in who reads it, but lets them try passwords, so
it is a secret all the same: it shows nothing of itself. As text it is what Apache Kafka keeps.

Names and passwords are taken as UTF-8, as Kafka takes them: no SASLprep.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

FEWEST_ITERATIONS: Final = 4_096  # the standard's, and Kafka's
MOST_ITERATIONS: Final = 16_384  # Kafka's
LONGEST_PASSWORD: Final = 1_024
_SALT_BYTES: Final = 24
_LONGEST_SALT: Final = 1_024
_LONGEST_TEXT: Final = 4_096
_MOST_READ: Final = 1_000_000  # that somebody set elsewhere: half a second for who checks by it


class ScramMechanism(StrEnum):
    """The two that Kafka has, by SASL's names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def code(self) -> int:
        """Kafka's number for it."""
        return 1 if self is ScramMechanism.SHA_256 else 2

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def digest_size(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.hash_name)

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Takes milliseconds: that is its purpose."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of one password for one mechanism."""

    mechanism: ScramMechanism
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
    ) -> Self:
        client_key = mechanism.hmac(salted, b"Client Key")
        stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
        return cls(mechanism, salt, stored_key, mechanism.hmac(salted, b"Server Key"), iterations)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
    ) -> Self:
        salted = mechanism.salted(password, salt, iterations)
        return cls.of_salted(mechanism, salted, salt, iterations)

    @classmethod
    def read(cls, mechanism: ScramMechanism, text: str) -> Self:
        """From Kafka's text. Raises ValueError, which quotes nothing of it."""
        try:
            return cls._read(mechanism, text)
        except ValueError:
            raise ValueError("not `salt=…,stored_key=…,server_key=…,iterations=…`") from None

    @classmethod
    def _read(cls, mechanism: ScramMechanism, text: str) -> Self:
        if len(text) > _LONGEST_TEXT:
            raise ValueError
        pairs = [each.partition("=") for each in text.split(",")]
        said = {key: value for key, _, value in pairs}
        if len(pairs) != 4 or said.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError
        if not said["iterations"].isascii() or not said["iterations"].isdigit():
            raise ValueError
        read = cls(
            mechanism,
            b64decode(said["salt"], validate=True),
            b64decode(said["stored_key"], validate=True),
            b64decode(said["server_key"], validate=True),
            int(said["iterations"]),
        )
        sizes = {len(read.stored_key), len(read.server_key)}
        if not read.salt or len(read.salt) > _LONGEST_SALT or sizes != {mechanism.digest_size}:
            raise ValueError
        if not FEWEST_ITERATIONS <= read.iterations <= _MOST_READ:
            raise ValueError
        return read

    def __str__(self) -> str:
        return f"{self.mechanism} ({self.iterations} iterations)"

    def text(self) -> str:
        """As Kafka keeps it: a secret."""
        salt, stored, server = (
            b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    def proves(self, proof: bytes, signed: bytes) -> bool:
        """Whether who made the proof knows the password; `signed` is what both have said."""
        if len(proof) != self.mechanism.digest_size:
            return False
        signature = self.mechanism.hmac(self.stored_key, signed)
        key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        found = hashlib.new(self.mechanism.hash_name, key).digest()
        return hmac.compare_digest(found, self.stored_key)

    def signature(self, signed: bytes) -> bytes:
        """What proves to the client that we know it, too."""
        return self.mechanism.hmac(self.server_key, signed)

    def matches(self, password: str) -> bool:
        """Whether that is the password. Takes milliseconds."""
        made = type(self).of_password(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(made.stored_key, self.stored_key)


def of_code(code: int) -> ScramMechanism | None:
    """The mechanism that Kafka has this number for."""
    return next((each for each in ScramMechanism if each.code == code), None)


def new_salt() -> bytes:
    return secrets.token_bytes(_SALT_BYTES)


def check_iterations(iterations: int) -> None:
    """Raises ValueError, in Kafka's words."""
    if iterations < FEWEST_ITERATIONS:
        raise ValueError("Too few iterations")
    if iterations > MOST_ITERATIONS:
        raise ValueError("Too many iterations")
