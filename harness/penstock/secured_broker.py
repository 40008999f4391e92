"""A Penstock broker with TLS by an authority of the test, and every kind of login.

    LOCKED    SASL_SSL, with any mechanism
    KNOWN     SSL, with a client certificate
    PLAIN     SASL_PLAINTEXT, SCRAM only
    BROKERS   SASL_SSL, for its own processes: the user `broker`

Its users are in USERS. Every listener requires a login, so the first users are written into
ZooKeeper by a command.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from client.connection.bootstrap import Bootstrap
from client.connection.security import Login, Mechanism, Security
from ground.tls.client import Tls
from harness.logins.certificates import Authority
from harness.logins.made_secrets import is_told, made_secret
from harness.logins.token_issuer import AUDIENCE, ISSUER, TokenIssuer, private_file
from harness.penstock.broker import REPOSITORY, BrokerProcess
from harness.processes.server_process import free_ports

USERS: Final = {
    "alice": made_secret("a secret that 'nobody' = uses"),
    "bob": made_secret("bob"),
    "broker": made_secret("broker"),
}
_SECRET: Final = made_secret("zookeeper")
_MECHANISMS: Final = [str(name) for name in Mechanism if name is not Mechanism.GSSAPI]


class SecuredBroker:
    """A running broker with users: `with SecuredBroker(directory, zookeeper=...) as secured`."""

    def __init__(
        self,
        directory: Path,
        *,
        zookeeper: str,
        login_seconds: int = 0,
        settings: Mapping[str, object] | None = None,
        revoked: tuple[str, ...] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.authority = Authority(directory / "authority")
        self._issuer = TokenIssuer(directory)
        certificate = self.authority.sign("broker")
        tls = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
        secret = self._file("zookeeper.secret", _SECRET)
        self.at_zookeeper = ("--zookeeper", zookeeper, "--zookeeper-secret-file", secret)
        known_tls = {**tls, "client_ca": str(self.authority.ca)}
        self.revoked = {name: self.authority.sign(name) for name in revoked}
        for signed in self.revoked.values():
            known_tls["revoked"] = str(self.authority.revoke(signed))
        self.locked, self.known, self.plain, self.brokers = free_ports(4)
        for name, password in USERS.items():
            self._file(f"{name}.password", password)
        certificate_listener = {"port": self.known, "tls": known_tls}
        locked_listener = {"port": self.locked, "tls": dict(tls), "logins": _MECHANISMS}
        plain_listener = {"port": self.plain, "logins": _MECHANISMS[1:3]}
        broker_listener = {"port": self.brokers, "tls": dict(tls), "logins": _MECHANISMS[2:3]}
        all_settings: dict[str, object] = {
            "listeners": [
                {"name": "LOCKED", "login_seconds": login_seconds, **locked_listener},
                {"name": "KNOWN", **certificate_listener},
                {"name": "PLAIN", "login_seconds": login_seconds, **plain_listener},
                {"name": "BROKERS", **broker_listener},
            ],
            "between_brokers": {
                "listener": "BROKERS",
                "security": {
                    "tls": {"ca": str(self.authority.ca)},
                    "login": {
                        "mechanism": "SCRAM-SHA-512",
                        "user": "broker",
                        "password_file": str(directory / "broker.password"),
                    },
                },
            },
            "zookeeper_secret": _SECRET,
            "tokens": {
                "issuer": ISSUER,
                "audience": AUDIENCE,
                "keys_file": self._issuer.keys_file,
            },
            **(settings or {}),
        }
        self.broker = BrokerProcess(directory, zookeeper=zookeeper, settings=all_settings)

    def __enter__(self) -> "SecuredBroker":
        for name in USERS:
            self.penstock(
                "users", "add", name, *self.at_zookeeper,
                "--password-file", str(self.directory / f"{name}.password"),
            )  # fmt: skip
        self.broker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.__exit__(None, None, None)

    def penstock(self, *arguments: str, expected: int = 0) -> str:
        """Runs a command and returns its output; fails if the command does."""
        command = [sys.executable, "-m", "penstock", *arguments]
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=120
        )
        assert run.returncode == expected, f"{command}: {run.stdout}{run.stderr}"
        output = run.stdout + run.stderr
        assert not is_told(output), "the output contains a secret"
        return output

    def token(self, user: str = "alice", *, seconds: float = 3600, **claims: Any) -> str:
        """Returns a token that the broker accepts."""
        return self._issuer.token(user, seconds=seconds, **claims)

    def security(
        self,
        mechanism: Mechanism | None,
        user: str = "alice",
        *,
        token: str = "",
        with_tls: bool = True,
    ) -> Security:
        """Returns a client's security settings; without a mechanism, they have a certificate."""
        if mechanism is None:
            certificate = self.authority.sign(user)
            return Security(tls=Tls(ca=str(self.authority.ca), certificate=str(certificate.both)))
        tls = Tls(ca=str(self.authority.ca)) if with_tls else None
        if mechanism is Mechanism.OAUTHBEARER:
            file = self._file(f"{user}.token", token or self.token(user))
            return Security(tls=tls, login=Login(mechanism=mechanism, token_file=file))
        password = str(self.directory / f"{user}.password")
        return Security(
            tls=tls, login=Login(mechanism=mechanism, user=user, password_file=password)
        )

    def bootstrap(self, mechanism: Mechanism | None, user: str = "alice") -> Bootstrap:
        port = self.known if mechanism is None else self.locked
        return Bootstrap.of(f"127.0.0.1:{port}", self.security(mechanism, user))

    def librdkafka(self, mechanism: str, user: str = "alice", **more: Any) -> dict[str, Any]:
        """Returns settings for confluent-kafka and kcat."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.locked}",
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.authority.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": USERS[user],
            **more,
        }

    def _file(self, name: str, content: str) -> str:
        return private_file(self.directory / name, content)
