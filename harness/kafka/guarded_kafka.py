"""Apache Kafka with ACLs: TLS by an authority of the test, and a user for each program.

    SASL_SSL    a login, by any mechanism; tokens are verified with their issuer's key
    SSL         a client certificate

A user has the same name on both listeners, so that one set of ACLs applies to both. ADMIN may do
everything, other users only what is allowed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from client.admin.acls import Rule, add_acls, all_acls, remove_acls
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Mechanism, Security
from harness.kafka.apache_kafka import QUICK_JVM, VERSION, ApacheKafka
from harness.kafka.secured_kafka import locks, scram_users
from harness.logins.certificates import Authority
from harness.logins.token_issuer import AUDIENCE, ISSUER, TokenIssuer, private_file
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from wire.acls import AclFilter

ADMIN: Final = "ada"
_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer"


class GuardedKafka:
    """A broker without ACLs at first: `with GuardedKafka(directory, users=(…)) as guarded`."""

    def __init__(
        self,
        directory: Path,
        users: Iterable[str],
        *,
        settings: Mapping[str, str] | None = None,
        version: str = VERSION,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.authority = Authority(directory / "authority")
        self.passwords = {name: f"{name}-secret-5b1e" for name in (ADMIN, *users)}
        self._issuer = TokenIssuer(directory)
        keys = self._issuer.keys_file
        logins = "listener.name.sasl_ssl"
        (certificates,) = free_ports(1)
        kafka_settings = {
            **locks(self.authority, logins, {**self.passwords, "broker": "broker-secret"}),
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_SSL",
            f"{logins}.oauthbearer.sasl.server.callback.handler.class": (
                f"{_TOKENS}.OAuthBearerValidatorCallbackHandler"
            ),
            f"{logins}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            f"{logins}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{logins}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller's listener is on loopback and has no login.
            "super.users": f"User:broker;User:{ADMIN};User:ANONYMOUS",
            **(settings or {}),
        }
        self.kafka = ApacheKafka(
            directory,
            settings=kafka_settings,
            protocol="SASL_SSL",
            beside={"SSL": certificates},
            scram=scram_users(self.passwords),
            heap="512m",
            jvm=(*QUICK_JVM, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys}"),
            version=version,
        )
        self._by_certificate = f"127.0.0.1:{certificates}"

    def __enter__(self) -> "GuardedKafka":
        self.kafka.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.__exit__(None, None, None)

    def address(self, mechanism: Mechanism | None) -> str:
        """Returns the address of the listener for the mechanism; for None, of the one that requires
        certificates."""
        return self._by_certificate if mechanism is None else self.kafka.bootstrap

    def security(self, user: str, mechanism: Mechanism | None) -> dict[str, Any]:
        """Returns the configuration section `security:` for the mechanism; for None, one with a
        certificate."""
        tls = {"ca": str(self.authority.ca)}
        if mechanism is None:
            return {"tls": {**tls, "certificate": str(self.authority.sign(user).both)}}
        if mechanism is Mechanism.OAUTHBEARER:
            token = {
                "token_file": self._file(f"{user}.token", self._issuer.token(user, iat=time.time()))
            }
            return {"tls": tls, "login": {"mechanism": str(mechanism), **token}}
        password = {"password_file": self.password_file(user)}
        return {"tls": tls, "login": {"mechanism": str(mechanism), "user": user, **password}}

    def password_file(self, user: str) -> str:
        return self._file(f"{user}.password", self.passwords[user])

    def bootstrap(self, user: str, mechanism: Mechanism | None = Mechanism.PLAIN) -> Bootstrap:
        security = msgspec.convert(self.security(user, mechanism), Security)
        return Bootstrap.of(self.address(mechanism), security)

    def allow(self, *rules: Rule) -> None:
        """Adds rules; returns once they are in force."""
        with Brokers(self.bootstrap(ADMIN)) as brokers:
            add_acls(brokers, rules)
            _wait_until(brokers, lambda rules_in_force: rules_in_force.issuperset(rules))

    def forbid(self, *rules: Rule) -> None:
        """Removes rules; returns once they are no longer in force."""
        with Brokers(self.bootstrap(ADMIN)) as brokers:
            remove_acls(brokers, rules)
            _wait_until(brokers, lambda rules_in_force: rules_in_force.isdisjoint(rules))

    @contextmanager
    def without(self, rule: Rule) -> Iterator[Callable[[], None]]:
        """Suspends a rule until the end of the block, or until the yielded function is called."""
        self.forbid(rule)
        try:
            yield partial(self.allow, rule)
        finally:
            self.allow(rule)

    def _file(self, name: str, content: str) -> str:
        return private_file(self._directory / name, content)


def _wait_until(brokers: Brokers, holds: Callable[[set[Rule]], bool]) -> None:
    """A broker returns the rules that it applies, which reach it through the controller."""

    def is_met() -> bool:
        acls_by_pattern = all_acls(brokers, AclFilter())
        return holds({(pattern, acl) for pattern, acls in acls_by_pattern.items() for acl in acls})

    wait_until(is_met, within=10, what="ACLs in force")
