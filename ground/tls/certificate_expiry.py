"""Monitors the expiry of certificates in files, for metrics and early warnings.

Only the end of the validity is parsed, at its place in X.509 (RFC 5280, 4.1), so that not every
program needs the large `cryptography` package. Replaced files are reread. Unreadable files are left
out; the code that uses them reports them.
"""

import binascii
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ground.files.reloaded_files import FileStamp, file_stamp

WARN_SECONDS: Final = 14 * 86_400.0

_LOOK_SECONDS: Final = 3600.0
_AGAIN_SECONDS: Final = 86_400.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_PEM: Final = re.compile(_BEGIN + rb"([A-Za-z0-9+/=\s]+)" + _END)

_SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_TIMES: Final = (_UTC_TIME, _GENERALIZED_TIME)
_TIME: Final = re.compile(rb"(\d\d)?" + rb"(\d\d)" * 6 + rb"Z")

log = logging.getLogger(__name__)


class NotACertificate(ValueError):
    """The bytes are not a certificate."""


class CertificateFiles(msgspec.Struct, frozen=True):
    """The files in a configuration: certificates that the program presents, and those it trusts."""

    shown: frozenset[str] = frozenset()
    believed: frozenset[str] = frozenset()

    def __or__(self, other: "CertificateFiles") -> "CertificateFiles":
        return CertificateFiles(self.shown | other.shown, self.believed | other.believed)


class _Read(NamedTuple):
    stamp: FileStamp
    ends: float | None


class CertificateWatch:
    """Monitors certificates. Thread-safe. Once started, warns from a thread of its own."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._known: dict[str, _Read] = {}
        self._warned: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="certificates", daemon=True)

    def ends(self) -> Mapping[str, float]:
        """Returns the expiry by file, in seconds since 1970.

        A presented chain expires with its first certificate. Among trusted certificates, which may
        include expired ones, the last to expire counts.
        """
        with self._lock:
            ends_by_file = {path: self._end_of(path) for path in self._all()}
        return {path: expiry for path, expiry in ends_by_file.items() if expiry is not None}

    def look(self, now: float) -> None:
        """Logs warnings about certificates that expire soon, each at most once a day."""
        for path, expiry in self.ends().items():
            if expiry - now >= WARN_SECONDS:
                self._warned.pop(path, None)
            elif abs(now - self._warned.get(path, float("-inf"))) >= _AGAIN_SECONDS:
                self._warned[path] = now
                state = "has expired" if expiry <= now else "expires soon"
                days = int((expiry - now) // 86_400)
                log.warning("certificate %s file=%s days_left=%d", state, path, days)

    def start(self) -> None:
        """Starts the thread if there are files to watch."""
        if self._all():
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        self.look(time.time())
        while not self._stopping.wait(_LOOK_SECONDS):
            self.look(time.time())

    def _all(self) -> list[str]:
        return sorted(self._files.shown | self._files.believed)

    def _end_of(self, path: str) -> float | None:
        stamp = file_stamp(path)
        known_end = self._known.get(path)
        if known_end is None or known_end.stamp != stamp:
            known_end = self._known[path] = _Read(stamp, self._read(path))
        return known_end.ends

    def _read(self, path: str) -> float | None:
        try:
            with Path(path).open("rb") as file:
                expiries = list(ends_of_pem(file.read(_MOST_BYTES)))
        except (OSError, NotACertificate):
            return None
        if not expiries:
            return None
        return min(expiries) if path in self._files.shown else max(expiries)


def ends_of_pem(pem: bytes) -> Iterator[float]:
    """Yields the expiry of each certificate, in seconds since 1970. Raises NotACertificate."""
    for block in _PEM.finditer(pem):
        try:
            der = binascii.a2b_base64(block[1])
        except binascii.Error:
            raise NotACertificate("invalid base64") from None
        yield end_of_der(der)


def end_of_der(der: bytes) -> float:
    """Returns the expiry of a certificate. Raises NotACertificate."""
    certificate, _ = _taken(der, _SEQUENCE)
    rest, _ = _taken(certificate, _SEQUENCE)
    if rest[:1] == bytes([_VERSION]):
        _, rest = _taken(rest, _VERSION)
    for tag in (_INTEGER, _SEQUENCE, _SEQUENCE):  # serial number, signature, issuer
        _, rest = _taken(rest, tag)
    validity, _ = _taken(rest, _SEQUENCE)
    _, expiry = _taken(validity, *_TIMES)
    content, _ = _taken(expiry, *_TIMES)
    return _seconds(content)


def _taken(der: bytes, *tags: int) -> tuple[bytes, bytes]:
    """Splits off the first element, of one of these tags; returns its content and the rest."""
    if len(der) < 2 or der[0] not in tags:
        raise NotACertificate("unexpected element")
    length, begin = der[1], 2
    if length & 0x80:
        begin += length & 0x7F
        if not 2 < begin <= 6:
            raise NotACertificate("invalid length")
        length = int.from_bytes(der[2:begin], "big")
    end = begin + length
    if end > len(der):
        raise NotACertificate("truncated element")
    return der[begin:end], der[end:]


def _seconds(text: bytes) -> float:
    match = _TIME.fullmatch(text)
    if match is None:
        raise NotACertificate("invalid time")
    century, *numbers = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    if century is None:  # two digits are 1950 to 2049
        year += 1900 if year >= 50 else 2000
    else:
        year += int(century) * 100
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        raise NotACertificate("invalid time") from None
