"""What a configuration's `zookeeper_security:` says of how ZooKeeper is connected to.

The secret that guards nodes (`zookeeper_secret`) is something else: it says what a session may
change, and goes on doing so with TLS and a login.
"""

import importlib.util

import msgspec

from ground.certificate_expiry import CertificateFiles
from ground.secrets import Secret
from ground.settings import FilePath
from ground.tls import Tls


class ZooKeeperSecurity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How ZooKeeper is connected to. Without it: neither TLS nor a login."""

    tls: Tls | None = None
    """TLS, and whom it believes; `{}` for the system's certificates."""
    user: str = ""
    """Who logs in, by SASL's DIGEST-MD5. Needs `penstock[zookeeper-login]`."""
    password_file: FilePath = ""
    """The user's password; the last line break does not count. Read again for every connection."""
    password_env: str = ""
    """The environment variable that holds the password, where it is in no file."""

    def __post_init__(self) -> None:
        given = [each for each in (self.password_file, self.password_env) if each]
        if self.user and len(given) != 1:
            raise ValueError("`user` needs one of password_file or password_env")
        if given and not self.user:
            raise ValueError("a password needs a `user`")

    @property
    def password(self) -> Secret:
        return Secret(self.password_file, self.password_env)

    @property
    def certificate_files(self) -> CertificateFiles:
        """Whose end somebody should know of in time."""
        tls = self.tls or Tls()
        shown, believed = frozenset({tls.certificate}), frozenset({tls.ca})
        return CertificateFiles(shown - {""}, believed - {""})


def can_log_in() -> bool:
    """Whether the package is there that kazoo does it with."""
    return importlib.util.find_spec("puresasl") is not None
