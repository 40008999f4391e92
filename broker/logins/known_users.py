"""The stored credentials that a login is checked against; made-up credentials for unknown users.

An unknown user gets a salt and an iteration count too, the same at any time and on any broker: the
salt is a keyed hash of the name; its length and the iterations are those that most users have.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from cluster.records.users import Credentials, Users
from ground.logins.scram import MOST_ITERATIONS, ScramCredential, ScramMechanism

_SALT_BYTES: Final = 24


class Checked(msgspec.Struct, frozen=True):
    """The credentials that a login is checked against; those of an unknown user never pass."""

    credential: ScramCredential
    exists: bool


class KnownUsers:
    """Looks up the credentials of stored users. `users` returns the current ones."""

    def __init__(self, users: Callable[[], Users], decoy_key: bytes) -> None:
        self._users = users
        self._key = decoy_key
        self._counted: Users | None = None
        self._usual: dict[ScramMechanism, tuple[int, int]] = {}

    def of_mechanism(self, name: str, mechanism: ScramMechanism) -> Checked:
        users = self._users()
        credential = users.get(name, {}).get(mechanism)
        if credential is not None:
            return Checked(credential, exists=True)
        return Checked(self._made_up(users, name, mechanism), exists=False)

    def of_any(self, name: str) -> Checked:
        """Returns the user's strongest credentials: for mechanisms that send the password
        itself."""
        users = self._users()
        credentials: Credentials = users.get(name, {})
        for mechanism in (ScramMechanism.SHA_512, ScramMechanism.SHA_256):
            if mechanism in credentials:
                return Checked(credentials[mechanism], exists=True)
        return Checked(self._made_up(users, name, ScramMechanism.SHA_512), exists=False)

    def _made_up(self, users: Users, name: str, mechanism: ScramMechanism) -> ScramCredential:
        iterations, salt_bytes = self._usual_of(users, mechanism)

        def made(what: str, size: int) -> bytes:
            seed = hmac.digest(self._key, f"{what}\0{mechanism}\0{name}".encode(), "sha512")
            return hashlib.shake_256(seed).digest(size)

        size = mechanism.digest_size
        return ScramCredential(
            mechanism,
            made("salt", salt_bytes),
            made("stored key", size),
            made("server key", size),
            iterations,
        )

    def _usual_of(self, users: Users, mechanism: ScramMechanism) -> tuple[int, int]:
        if users is not self._counted:
            self._counted = users
            self._usual = {
                mechanism: _most_common(users, mechanism) for mechanism in ScramMechanism
            }
        return self._usual[mechanism]


def _most_common(users: Users, mechanism: ScramMechanism) -> tuple[int, int]:
    parameter_counts = Counter(
        (credential.iterations, len(credential.salt))
        for credentials in users.values()
        if (credential := credentials.get(mechanism)) is not None
    )
    # Of two equally frequent ones, every broker chooses the same.
    return max(
        parameter_counts,
        key=lambda parameters: (parameter_counts[parameters], parameters),
        default=(MOST_ITERATIONS, _SALT_BYTES),
    )
