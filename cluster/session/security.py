"""The configuration of connections to ZooKeeper, `zookeeper_security:`.

The secret that protects nodes (`zookeeper_secret`) is separate: it determines what a session may
change, also with TLS and a login.
"""

import importlib.util

import msgspec

from ground.logins.secrets import Secret
from ground.settings import FilePath
from ground.tls.certificate_expiry import CertificateFiles
from ground.tls.client import Tls


class ZooKeeperSecurity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connections to ZooKeeper. Default: neither TLS nor a login."""

    tls: Tls | None = None
    """TLS, with the trusted authorities; `{}` for the system's certificates."""
    user: str = ""
    """User of a login with SASL DIGEST-MD5. Needs `penstock[zookeeper-login]`."""
    password_file: FilePath = ""
    """The user's password, without the last line break. Read again for every connection."""
    password_env: str = ""
    """Environment variable with the password, instead of a file."""

    def __post_init__(self) -> None:
        sources = [source for source in (self.password_file, self.password_env) if source]
        if self.user and len(sources) != 1:
            raise ValueError("`user` requires exactly one of `password_file` and `password_env`")
        if sources and not self.user:
            raise ValueError("`password_file` and `password_env` require a `user`")

    @property
    def password(self) -> Secret:
        return Secret(self.password_file, self.password_env)

    @property
    def certificate_files(self) -> CertificateFiles:
        """Files to watch for expiry."""
        tls = self.tls or Tls()
        own_files, ca_files = frozenset({tls.certificate}), frozenset({tls.ca})
        return CertificateFiles(own_files - {""}, ca_files - {""})


def can_log_in() -> bool:
    """Whether the package that kazoo needs for logins is installed."""
    return importlib.util.find_spec("puresasl") is not None
