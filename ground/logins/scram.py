"""SCRAM's arithmetic (RFC 5802): stored credentials, and proofs of knowing a password.

A stored `ScramCredential` does not let its reader log in, but allows guessing passwords. So it is a
secret, and not shown. Its text form is Apache Kafka's.

Names and passwords are UTF-8 without SASLprep, as in Kafka.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

FEWEST_ITERATIONS: Final = 4_096  # required by the standard and by Kafka
MOST_ITERATIONS: Final = 16_384  # Kafka's
LONGEST_PASSWORD: Final = 1_024
_SALT_BYTES: Final = 24
_LONGEST_SALT: Final = 1_024
_LONGEST_TEXT: Final = 4_096
_MOST_READ: Final = 1_000_000  # in credentials set elsewhere: half a second for each check


class ScramMechanism(StrEnum):
    """Kafka's two mechanisms, by their SASL names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def code(self) -> int:
        """Kafka's number for the mechanism."""
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
        """Returns the salted password. Takes milliseconds, which is its purpose."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored form of a password for one mechanism."""

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
        salted_password = mechanism.salted(password, salt, iterations)
        return cls.of_salted(mechanism, salted_password, salt, iterations)

    @classmethod
    def read(cls, mechanism: ScramMechanism, text: str) -> Self:
        """Parses Kafka's text form. Raises ValueError, which does not quote it."""
        try:
            return cls._read(mechanism, text)
        except ValueError:
            raise ValueError("expected `salt=…,stored_key=…,server_key=…,iterations=…`") from None

    @classmethod
    def _read(cls, mechanism: ScramMechanism, text: str) -> Self:
        if len(text) > _LONGEST_TEXT:
            raise ValueError
        pairs = [part.partition("=") for part in text.split(",")]
        fields = {key: value for key, _, value in pairs}
        if len(pairs) != 4 or fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError
        if not fields["iterations"].isascii() or not fields["iterations"].isdigit():
            raise ValueError
        credential = cls(
            mechanism,
            b64decode(fields["salt"], validate=True),
            b64decode(fields["stored_key"], validate=True),
            b64decode(fields["server_key"], validate=True),
            int(fields["iterations"]),
        )
        sizes = {len(credential.stored_key), len(credential.server_key)}
        if (
            not credential.salt
            or len(credential.salt) > _LONGEST_SALT
            or sizes != {mechanism.digest_size}
        ):
            raise ValueError
        if not FEWEST_ITERATIONS <= credential.iterations <= _MOST_READ:
            raise ValueError
        return credential

    def __str__(self) -> str:
        return f"{self.mechanism} ({self.iterations} iterations)"

    def text(self) -> str:
        """Returns Kafka's text form, which is a secret."""
        salt, stored_key, server_key = (
            b64encode(value).decode() for value in (self.salt, self.stored_key, self.server_key)
        )
        keys = f"stored_key={stored_key},server_key={server_key}"
        return f"salt={salt},{keys},iterations={self.iterations}"

    def proves(self, proof: bytes, signed: bytes) -> bool:
        """Whether the proof shows knowledge of the password. `signed` is the text that both sides
        sign."""
        if len(proof) != self.mechanism.digest_size:
            return False
        signature = self.mechanism.hmac(self.stored_key, signed)
        key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self.mechanism.hash_name, key).digest()
        return hmac.compare_digest(stored_key, self.stored_key)

    def signature(self, signed: bytes) -> bytes:
        """The server's proof that it knows the credential, too."""
        return self.mechanism.hmac(self.server_key, signed)

    def matches(self, password: str) -> bool:
        """Whether the password is correct. Takes milliseconds."""
        candidate = type(self).of_password(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(candidate.stored_key, self.stored_key)


def of_code(code: int) -> ScramMechanism | None:
    """Returns the mechanism with Kafka's number."""
    return next((mechanism for mechanism in ScramMechanism if mechanism.code == code), None)


def new_salt() -> bytes:
    return secrets.token_bytes(_SALT_BYTES)


def check_iterations(iterations: int) -> None:
    """Checks the number of iterations. Raises ValueError, with Kafka's messages."""
    if iterations < FEWEST_ITERATIONS:
        raise ValueError("Too few iterations")
    if iterations > MOST_ITERATIONS:
        raise ValueError("Too many iterations")
