"""Ed25519 keys in files, in the formats of OpenSSL.

    signing-key       the private key: PKCS#8 as PEM, readable for its user alone
    signing-key.pub   the public key: SubjectPublicKeyInfo as PEM

A key is known by its fingerprint, the SHA-256 of the public key as DER. OpenSSL computes it, too:

    openssl pkey -pubin -in signing-key.pub -outform DER | sha256sum

A private key is written once, before anything is signed with it, and never changed: a process that
is killed meanwhile leaves no key or a whole one. The public key is written again if it is missing,
or that of another key.

`cryptography` is imported by what needs it, at its first use: commands that sign nothing do not
wait for it. Our own files are read and written without its module for key formats, which would cost
each program another megabyte.
"""

import binascii
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from ground.files.durable_files import replace_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE_NAME: Final = "signing-key"
PUBLIC_SUFFIX: Final = ".pub"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_MOST_BYTES: Final = 64 * 1024  # of a file
_OWN: Final = 0o600
_FOR_ALL: Final = 0o644
# What precedes an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410).
_DER_HEAD: Final = bytes.fromhex("302a300506032b6570032100")
# What precedes an Ed25519 key in PKCS#8.
_PKCS8_HEAD: Final = bytes.fromhex("302e020100300506032b657004220420")
_PRIVATE_PEM: Final = re.compile(
    rb"\s*-----BEGIN PRIVATE KEY-----\s+([A-Za-z0-9+/=\s]{1,200}?)\s+-----END PRIVATE KEY-----\s*"
)
_PEM: Final = re.compile(
    rb"-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]{1,200}?)\s+-----END PUBLIC KEY-----"
)


class BadKey(Exception):
    """A file is not a usable key; the message says which file and why."""


class PublicKey(msgspec.Struct, frozen=True):
    """A public key, as its 32 bytes."""

    raw: bytes

    @classmethod
    def of_pem(cls, pem: bytes) -> Self:
        """Reads the first public key. Raises BadKey."""
        match = _PEM.search(pem)
        if match is None:
            raise BadKey("contains no public key as PEM")
        try:
            der = binascii.a2b_base64(match[1])
        except binascii.Error:
            raise BadKey("contains invalid base64") from None
        if len(der) != len(_DER_HEAD) + KEY_BYTES or not der.startswith(_DER_HEAD):
            raise BadKey("contains a key that is not Ed25519")
        return cls(der[len(_DER_HEAD) :])

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Raises BadKey, also if the file cannot be read."""
        try:
            return cls.of_pem(_read(path))
        except BadKey as error:
            raise BadKey(f"{path}: {error}") from None

    def is_in(self, path: Path) -> bool:
        """Whether a file has this key."""
        try:
            return self.of_file(path) == self
        except BadKey:
            return False

    @property
    def der(self) -> bytes:
        return _DER_HEAD + self.raw

    @property
    def pem(self) -> bytes:
        return _pem(b"PUBLIC KEY", self.der)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the key as DER, in hexadecimal."""
        return hashlib.sha256(self.der).hexdigest()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature of the message was made with this key."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private key."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes_raw())

    @classmethod
    def new(cls) -> Self:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PrivateKey,
        )

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Reads a private key. Raises BadKey, also if the file cannot be read."""
        try:
            return cls(_private_key(_read(path)))
        except BadKey as error:
            raise BadKey(f"{path}: {error}") from None

    @classmethod
    def kept(cls, path: Path) -> Self:
        """Reads the key of a program, or makes one at its first start; its directory must be locked
        by the program. Writes the public key again if it is missing or another's. Raises BadKey,
        also if others can read the key, and OSError."""
        if not path.exists():
            return cls.renewed(path)
        if problem := permissions_problem(path):
            raise BadKey(problem)
        key = cls.of_file(path)
        if not key.public.is_in(public_path(path)):
            replace_file(public_path(path), key.public.pem, mode=_FOR_ALL)
        return key

    @classmethod
    def renewed(cls, path: Path) -> Self:
        """Makes a new key, which replaces one that is there. Raises OSError."""
        public_path(path).unlink(missing_ok=True)  # so that it never is another key's
        key = cls.new()
        key.write(path)
        replace_file(public_path(path), key.public.pem, mode=_FOR_ALL)
        return key

    def write(self, path: Path) -> None:
        """Writes the private key, readable for its user alone. Raises OSError."""
        pem = _pem(b"PRIVATE KEY", _PKCS8_HEAD + self._key.private_bytes_raw())
        replace_file(path, pem, mode=_OWN)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def public_path(path: Path) -> Path:
    """Returns the file of the public key that belongs to a private key's."""
    return path.with_name(path.name + PUBLIC_SUFFIX)


def permissions_problem(path: Path) -> str:
    """Returns why a private key's permissions are wrong; empty if they are right. Raises
    OSError."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) and stat.S_IMODE(mode) & ~_OWN:
        return f"{path}: other users can use this key: set its mode to 600"
    return ""


def _private_key(pem: bytes) -> "Ed25519PrivateKey":
    """Reads a private key. Raises BadKey."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    match = _PRIVATE_PEM.fullmatch(pem)
    try:
        der = b"" if match is None else binascii.a2b_base64(match[1])
    except binascii.Error:
        raise BadKey("contains invalid base64") from None
    if len(der) == len(_PKCS8_HEAD) + KEY_BYTES and der.startswith(_PKCS8_HEAD):
        return Ed25519PrivateKey.from_private_bytes(der[len(_PKCS8_HEAD) :])
    return _foreign_private_key(pem)


def _foreign_private_key(pem: bytes) -> "Ed25519PrivateKey":
    """Reads a private key in another form than ours. Raises BadKey."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_pem_private_key,
    )

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise BadKey(f"not a private key without a password: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey("the key is not Ed25519")
    return key


def _pem(label: bytes, der: bytes) -> bytes:
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (label, binascii.b2a_base64(der), label)


def _read(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadKey(error.strerror or str(error)) from None
    if len(content) > _MOST_BYTES:
        raise BadKey(f"longer than {_MOST_BYTES:,} bytes")
    return content
