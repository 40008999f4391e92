"""The keys of a secure pipeline: created if missing, renewed before they expire.

What is there is kept. The files of passwords and tokens are what counts: who removes one, or
exchanges it, has another from the next start on. In the files of users, lines of others stay as
they are. Files are replaced whole, so that a kill at any point leaves what the next start goes on
with; nothing that was signed is believed without its key.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from ground.files.durable_files import replace_file
from ground.logins.password_file import SlowHash
from ground.logins.secrets import NoSecret, Secret
from penstock.certificates.authority import USUAL_DAYS, Authority, Refused, make_authority
from penstock.certificates.x509 import Purpose
from penstock.directory.errors import DirectoryUnusable
from penstock.directory.locks import (
    ADMIN,
    HOSTS,
    PAGE_HOSTS,
    SERVERS,
    TOKENS,
    Locks,
    at_audit,
    at_brokers,
    at_registry,
    users,
)
from penstock.directory.places import PRIVATE
from penstock.directory.preparation import literal_in

RENEW_BEFORE: Final = timedelta(days=30)  # programs warn from two weeks on
_LAST_DAYS: Final = timedelta(days=2)
_OWN: Final = 0o600
_RANDOM_BYTES: Final = 24
_NAME: Final = "Penstock on this machine"
_FOR_COMMANDS: Final = """\
# Written by `penstock up` at each start: changes are lost. `environment` tells commands of it.
"""


def make_keys(locks: Locks, *, mirrored: bool = False) -> None:
    """All that locks.py names. Raises DirectoryUnusable or OSError."""
    locks.folder.mkdir(PRIVATE, exist_ok=True)
    locks.folder.chmod(PRIVATE)
    renew_certificates(locks, datetime.now(UTC))
    passwords = {user: _kept(locks.password(user)) for user in users(mirrored=mirrored)}
    tokens = {user: _kept(locks.token(user)) for user in TOKENS}
    _have_lines(locks.registry_users, passwords, _is_hash_of, _hash_of)
    _have_lines(locks.audit_users, {ADMIN: passwords[ADMIN]}, _is_hash_of, _hash_of)
    _have_lines(locks.audit_tokens, tokens, _is_digest_of, _digest_of)
    for asked, said in (
        ("brokers", at_brokers(locks, ADMIN)),
        ("registry", at_registry(locks, ADMIN)),
        ("audit", at_audit(locks, ADMIN)),
    ):
        text = _FOR_COMMANDS + _yaml(said)
        replace_file(locks.for_commands(asked), text.encode(), mode=_OWN)


def renew_certificates(locks: Locks, now: datetime) -> None:
    """Those that end soon, or are missing. Programs that run take them over with their next
    connection. Raises DirectoryUnusable or OSError."""
    try:
        authority = (
            Authority(locks.authority)
            if locks.ca.exists()
            else make_authority(locks.authority, _NAME, now=now)
        )
        if authority.ends - now < _LAST_DAYS:
            raise Refused(f"{locks.ca} ends on {authority.ends:%Y-%m-%d}, and all that it signed")
        for server in SERVERS:
            if _is_good(authority, locks.certificate(server), now):
                continue
            authority.sign(
                server,
                hosts=PAGE_HOSTS if server == "audit" else HOSTS,
                purpose=Purpose.SERVER,
                days=min(USUAL_DAYS, (authority.ends - now).days),
                now=now,
                force=True,
            )
    except Refused as error:
        raise DirectoryUnusable(
            f"{error}. What is in {locks.authority} is made anew if you remove it; clients "
            "elsewhere then need the new ca.pem"
        ) from None


def _is_good(authority: Authority, path: Path, now: datetime) -> bool:
    """Whether what is there is this authority's, and for long enough."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(authority.certificate)
    except (FileNotFoundError, ValueError, TypeError, InvalidSignature):
        return False
    # The authority's own end cannot be put off: once all end with it, nothing is gained.
    wanted = min(now + RENEW_BEFORE, authority.ends - _LAST_DAYS)
    return certificate.not_valid_after_utc >= wanted


def _kept(path: Path) -> str:
    """The secret that is there, or a new one. Raises DirectoryUnusable or OSError."""
    try:
        return Secret(file=str(path)).read()
    except NoSecret as error:
        if path.exists():
            raise DirectoryUnusable(f"{error}: another is made if you remove it") from None
    made = secrets.token_urlsafe(_RANDOM_BYTES)
    replace_file(path, f"{made}\n".encode(), mode=_OWN)
    return made


def _have_lines(
    path: Path,
    wanted: Mapping[str, str],
    fits: Callable[[str, str], bool],
    made: Callable[[str], str],
) -> None:
    """Each of these users has one line, that of his secret."""
    lines = _lines(path)
    before = list(lines)
    for name, secret in wanted.items():
        own = [line for line in lines if line.startswith(f"{name}:")]
        if len(own) != 1 or not fits(own[0].removeprefix(f"{name}:"), secret):
            lines = [line for line in lines if line not in own]
            lines.append(f"{name}:{made(secret)}")
    if lines != before:
        replace_file(path, "".join(f"{line}\n" for line in lines).encode(), mode=_OWN)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise DirectoryUnusable(f"{path} is not UTF-8: it is made anew if you remove it") from None


def _is_hash_of(text: str, password: str) -> bool:
    try:
        return SlowHash.read(text).matches(password)
    except ValueError:
        return False


def _hash_of(password: str) -> str:
    return str(SlowHash.of(password))


def _is_digest_of(text: str, token: str) -> bool:
    return text == _digest_of(token)


def _digest_of(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def _yaml(said: Mapping[str, Any]) -> str:
    return yaml.safe_dump(literal_in(said), sort_keys=False, allow_unicode=True)
