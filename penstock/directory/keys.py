"""The keys of a secure pipeline: created if missing, renewed before they expire.

Existing keys are kept. If a file with a password or token is removed or replaced, the next start
updates the files of users to match; lines of other users in these stay unchanged. Files are
replaced atomically, so a start after a crash at any point continues.
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

RENEW_BEFORE: Final = timedelta(days=30)  # programs warn two weeks before
_LAST_DAYS: Final = timedelta(days=2)
_OWN: Final = 0o600
_RANDOM_BYTES: Final = 24
_NAME: Final = "Penstock on this machine"
_FOR_COMMANDS: Final = """\
# Written by `penstock up` at each start: changes are lost. `environment` names it for commands.
"""


def make_keys(locks: Locks, *, mirrored: bool = False) -> None:
    """Creates all files that locks.py names. Raises DirectoryUnusable or OSError."""
    locks.folder.mkdir(PRIVATE, exist_ok=True)
    locks.folder.chmod(PRIVATE)
    renew_certificates(locks, datetime.now(UTC))
    passwords = {user: _secret(locks.password(user)) for user in users(mirrored=mirrored)}
    tokens = {user: _secret(locks.token(user)) for user in TOKENS}
    _update_lines(locks.registry_users, passwords, _is_hash_of, _hash_of)
    _update_lines(locks.audit_users, {ADMIN: passwords[ADMIN]}, _is_hash_of, _hash_of)
    _update_lines(locks.audit_tokens, tokens, _is_digest_of, _digest_of)
    for server, credentials in (
        ("brokers", at_brokers(locks, ADMIN)),
        ("registry", at_registry(locks, ADMIN)),
        ("audit", at_audit(locks, ADMIN)),
    ):
        text = _FOR_COMMANDS + _yaml(credentials)
        replace_file(locks.for_commands(server), text.encode(), mode=_OWN)


def renew_certificates(locks: Locks, now: datetime) -> None:
    """Renews certificates that expire soon or are missing. Running programs use the new ones from
    their next connection on. Raises DirectoryUnusable or OSError."""
    try:
        authority = (
            Authority(locks.authority)
            if locks.ca.exists()
            else make_authority(locks.authority, _NAME, now=now)
        )
        if authority.ends - now < _LAST_DAYS:
            raise Refused(f"{locks.ca} and all that it signed expire on {authority.ends:%Y-%m-%d}")
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
            f"{error}. Remove {locks.authority} to create a new authority; clients on other hosts "
            "then need its ca.pem"
        ) from None


def _is_good(authority: Authority, path: Path, now: datetime) -> bool:
    """Whether the certificate was signed by this authority, and need not be renewed yet."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(authority.certificate)
    except (FileNotFoundError, ValueError, TypeError, InvalidSignature):
        return False
    # No certificate can outlive its authority, so renewal would gain nothing near its end.
    earliest_expiry = min(now + RENEW_BEFORE, authority.ends - _LAST_DAYS)
    return certificate.not_valid_after_utc >= earliest_expiry


def _secret(path: Path) -> str:
    """Returns the existing secret, or a new one. Raises DirectoryUnusable or OSError."""
    try:
        return Secret(file=str(path)).read()
    except NoSecret as error:
        if path.exists():
            raise DirectoryUnusable(f"{error}: remove it to create a new one") from None
    secret = secrets.token_urlsafe(_RANDOM_BYTES)
    replace_file(path, f"{secret}\n".encode(), mode=_OWN)
    return secret


def _update_lines(
    path: Path,
    secrets_by_user: Mapping[str, str],
    matches: Callable[[str, str], bool],
    encode: Callable[[str], str],
) -> None:
    """Updates the file so that each of these users has one line, which matches the secret."""
    lines = _lines(path)
    old_lines = list(lines)
    for name, secret in secrets_by_user.items():
        user_lines = [line for line in lines if line.startswith(f"{name}:")]
        if len(user_lines) != 1 or not matches(user_lines[0].removeprefix(f"{name}:"), secret):
            lines = [line for line in lines if line not in user_lines]
            lines.append(f"{name}:{encode(secret)}")
    if lines != old_lines:
        replace_file(path, "".join(f"{line}\n" for line in lines).encode(), mode=_OWN)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise DirectoryUnusable(f"{path} is not UTF-8: remove it to create a new one") from None


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


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(literal_in(content), sort_keys=False, allow_unicode=True)
