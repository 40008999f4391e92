"""An audit behind locks: HTTPS, two who read and an operator, programs of both kinds, and a proxy
at an address that nobody else has."""

import base64
import hashlib
import itertools
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from ground.logins.password_file import SlowHash
from harness.logins.certificates import Authority
from harness.logins.made_secrets import made_secret
from harness.penstock.audit import Answer, AuditProcess

ALICE: Final = ("alice", made_secret("correct horse battery staple"))
BOB: Final = ("bob", made_secret("Tr0ub4dor&3"))
OLGA: Final = ("olga", made_secret("an operator's password"))
TOKEN: Final = made_secret("prometheus")
OPERATORS_TOKEN: Final = made_secret("on call")  # of `on-call`
FORM: Final = "application/x-www-form-urlencoded"
COOKIE: Final = "__Host-penstock-audit"

PROXY: Final = "127.2.0.1"  # is believed

# Of this machine, and each another one: mistakes of one test are no mistakes of the next.
ADDRESSES: Final = (f"127.1.{each // 250}.{each % 250 + 1}" for each in itertools.count())


class LockedAudit(AuditProcess):
    def __init__(
        self, directory: Path, *, settings: Mapping[str, object] | None = None, **cluster: str
    ) -> None:
        """`cluster`: its brokers and registry, if there are any."""
        directory.mkdir(parents=True, exist_ok=True)
        authority = Authority(directory / "authority")
        signed = authority.sign("audit")
        self.users = directory / "users"
        self.write_users(ALICE, BOB, OLGA)
        self.tokens = directory / "tokens"
        self.write_tokens({"prometheus": TOKEN, "on-call": OPERATORS_TOKEN})
        self.operators = directory / "operators"
        self.operators.write_text("# who may say something\nolga\non-call\npeter\n")
        locks = {
            "tls": {"certificate": str(signed.certificate), "key": str(signed.key)},
            "users_file": str(self.users),
            "tokens_file": str(self.tokens),
            "operators_file": str(self.operators),
            "proxy": {"header": "X-Forwarded-User", "addresses": [PROXY]},
            "host_names": ["127.0.0.1", "localhost"],
            "messages": {"topics": ["clicks*", "remade"], "within": 60},
        }
        super().__init__(directory, settings={**locks, **(settings or {})}, **cluster)
        self.use_tls(authority.ca, {"authorization": f"Bearer {TOKEN}"})
        self.ca = authority.ca
        self.certificate = signed
        self.authority = authority

    def write_users(self, *users: tuple[str, str]) -> None:
        lines = [f"{name}:{SlowHash.of(password)}\n" for name, password in users]
        fresh = self.users.with_suffix(".new")
        fresh.write_text("".join(lines))
        fresh.replace(self.users)

    def write_tokens(self, tokens: Mapping[str, str]) -> None:
        digests = {name: hashlib.sha256(token.encode()) for name, token in tokens.items()}
        lines = [f"{name}:sha256:{digest.hexdigest()}\n" for name, digest in digests.items()]
        self.tokens.write_text("# tokens\n" + "".join(lines))

    def log_in(
        self, user: tuple[str, str] = ALICE, *, place: str = "/", **how: str | None
    ) -> Answer:
        """As the form does."""
        name, password = user
        return self.post("/login", {"user": name, "password": password, "next": place}, **how)

    def post(
        self,
        path: str,
        fields: Mapping[str, str],
        *,
        address: str | None = None,
        origin: str | None = None,
        cookie: str | None = None,
    ) -> Answer:
        headers = {"content-type": FORM, "origin": self.url if origin is None else origin}
        if cookie is not None:
            headers["cookie"] = cookie
        body = urlencode(fields).encode()
        address = address or "127.0.0.1"
        return self.ask(path, method="POST", headers=headers, body=body, address=address)

    def session(self, user: tuple[str, str] = ALICE) -> str:
        """The cookie of a new one."""
        answer = self.log_in(user)
        assert answer.status == 303, answer
        return answer.headers["set-cookie"].partition(";")[0]

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def shown_certificate(self) -> str:
        return ssl.get_server_certificate(("127.0.0.1", self.port), ca_certs=str(self.ca))

    def lines_about(self, address: str) -> list[str]:
        return [each for each in self.log().splitlines() if f"address={address} " in each]


def basic(user: tuple[str, str]) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(':'.join(user).encode()).decode()}"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
