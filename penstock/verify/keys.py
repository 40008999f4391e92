"""The public keys that a verifier trusts, in a folder.

The role of a key is the beginning of its file's name, or the name of its subfolder:

    audit.pub, audit-2027.pub, audit/*.pub       audits
    loader.pub, loader-dc2.pub, loader/*.pub     loaders
    agent/web-1.pub, agent/web-1/*.pub           agents, by their hosts

Other names are ignored. The keys of agents are optional: without, any key that is in a heads file
is taken for its agent's.

Rule 1: an hour certificate needs the signatures of an audit and of a loader.
Rule 2: a key has one role. Otherwise one program could sign for both.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ground.printable import error_words
from ground.signatures.envelopes import BadEnvelope, Envelope
from ground.signatures.keys import KEY_BYTES, PUBLIC_SUFFIX, BadKey, PublicKey
from penstock.verify.faults import Kind

MOST_KEYS: Final = 1_000_000
_AGENT: Final = "agent"
_SHOWN: Final = 16  # letters of a fingerprint


class Role(Enum):
    AUDIT = "audit"
    LOADER = "loader"


class BadKeys(Exception):
    """The folder is not usable; the message says why."""


class TrustedKey(msgspec.Struct, frozen=True):
    """A key, its role, and its file below the folder."""

    key: PublicKey
    role: Role
    file: str


class AgentKey(NamedTuple):
    """The key of an agent, as its bytes, its file, and the host for which it is named."""

    key: bytes
    file: str
    host: str


class Signed(msgspec.Struct, frozen=True):
    """Who has signed an envelope, or why it is not believed."""

    files: tuple[str, ...] = ()  # of the signers' keys
    fault: Kind | None = None
    words: str = ""


class TrustedKeys:
    """The keys of a folder. Raises BadKeys."""

    def __init__(self, folder: Path) -> None:
        self._keys: dict[str, TrustedKey] = {}
        self.agents: list[AgentKey] = []
        for trusted in _keys_in(folder):
            if isinstance(trusted, AgentKey):
                self.agents.append(trusted)
                continue
            before = self._keys.setdefault(trusted.key.fingerprint, trusted)
            if before.role is not trusted.role:
                raise BadKeys(f"{before.file} and {trusted.file} in {folder} are the same key")
        roles = {trusted.role for trusted in self._keys.values()}
        for role in Role:
            if role not in roles:
                raise BadKeys(
                    f"{folder} has no key of the {role.value}: name its public key "
                    f"{role.value}{PUBLIC_SUFFIX}"
                )
        self._public: Mapping[str, PublicKey] = {
            fingerprint: trusted.key for fingerprint, trusted in self._keys.items()
        }

        self._of_agents = {agent.key for agent in self.agents}

    def has_agent(self, der: bytes) -> bool:
        """Whether a key, given as DER, is among those of agents."""
        return der[-KEY_BYTES:] in self._of_agents

    def signed(self, envelope: Envelope, roles: Iterable[Role] = Role) -> Signed:
        """Returns who has signed the envelope. There is a fault unless a key of each role has."""
        try:
            signers = envelope.signers(self._public)
        except BadEnvelope as error:
            return Signed(fault=Kind.WRONG_SIGNATURE, words=str(error))
        trusted_signers = [self._keys[signer] for signer in signers]
        files = tuple(sorted(trusted.file for trusted in trusted_signers))
        signed_roles = {trusted.role for trusted in trusted_signers}
        missing = [role for role in roles if role not in signed_roles]
        if not missing:
            return Signed(files)
        who = " and ".join(f"the {role.value}" for role in missing)
        strangers = [
            signature.keyid[:_SHOWN]
            for signature in envelope.signatures
            if signature.keyid not in self._public
        ]
        if not strangers:
            return Signed(files, Kind.MISSING_SIGNATURE, f"is not signed by {who}")
        keys = "the key" if len(strangers) == 1 else "keys"
        return Signed(
            files,
            Kind.UNKNOWN_KEY,
            f"is not signed by a known key of {who}, but by {keys} {', '.join(strangers)}…",
        )


def _keys_in(folder: Path) -> Iterator[TrustedKey | AgentKey]:
    try:
        paths = sorted(folder.rglob(f"*{PUBLIC_SUFFIX}")) if folder.is_dir() else None
    except OSError as error:
        raise BadKeys(f"{folder}: {error_words(error)}") from None
    if paths is None:
        raise BadKeys(f"{folder} is not a folder")
    if len(paths) > MOST_KEYS:
        raise BadKeys(f"{folder} has more than {MOST_KEYS:,} keys")
    for path in paths:
        file = path.relative_to(folder)
        role = _role_of(file)
        is_agent = len(file.parts) > 1 and file.parts[0] == _AGENT
        if role is None and not is_agent:
            continue
        try:
            key = PublicKey.of_file(path)
            if role is None:
                is_in_folder = file.parent.name != _AGENT
                host = file.parts[1] if is_in_folder else file.name.removesuffix(PUBLIC_SUFFIX)
                yield AgentKey(key.raw, str(file), host)
            else:
                yield TrustedKey(key, role, str(file))
        except BadKey as error:
            raise BadKeys(str(error)) from None


def _role_of(file: Path) -> Role | None:
    text = file.parts[0] if len(file.parts) > 1 else file.name.removesuffix(PUBLIC_SUFFIX)
    for role in Role:
        if re.fullmatch(rf"{role.value}(?:[-_.].*)?", text, re.DOTALL):
            return role
    return None
