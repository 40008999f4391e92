"""A registry with certificates, users, tokens and rules, and the credentials for it."""

import datetime
import hashlib
import ipaddress
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ground.http.client import HttpClient, parse_url
from ground.http.security import HttpAccess, HttpSecurity
from ground.logins.password_file import SlowHash
from ground.tls.client import Tls
from harness.logins.certificates import Authority
from harness.logins.made_secrets import made_secret
from harness.penstock.registry import RegistryProcess

STRING: Final = '"string"'
SCHEMA: Final = {"schema": STRING}
USERS: Final = ("root", "alice", "bob", "peer")
TOKEN: Final = made_secret("a-long-and-random-token")
EVERYTHING: Final = ["read", "write", "compatibility", "delete", "mode"]
PERMISSIONS: Final = [
    {"principal": "root", "subjects": "*", "may": EVERYTHING},
    {"principal": "alice", "subjects": "pay-", "may": ["read", "write"]},
    {"principal": "a-certificate", "subjects": "pay-", "may": ["read"]},
    {"principal": "a-token", "subjects": "pay-", "may": ["read"]},
]


class Locks:
    """The files of a locked registry. Every user's password is the made secret of its name."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.authority = Authority(directory / "authority")
        self.server = self.authority.sign("server")
        self.client = self.authority.sign("a-certificate")
        self.users = directory / "users"
        self.users.write_text(
            "".join(f"{each}:{SlowHash.of(made_secret(each))}\n" for each in USERS)
        )
        self.tokens = directory / "tokens"
        hashed = hashlib.sha256(TOKEN.encode()).hexdigest()
        self.tokens.write_text(f"a-token:sha256:{hashed}\n")

    @property
    def tls(self) -> Tls:
        return Tls(ca=str(self.authority.ca))

    def login(self, user: str, password: str | None = None) -> HttpSecurity:
        path = self.directory / f"password-{uuid.uuid4().hex}"
        path.write_text(made_secret(user) if password is None else password)
        return HttpSecurity(tls=self.tls, user=user, password_file=str(path))

    def token(self, token: str = TOKEN) -> HttpSecurity:
        path = self.directory / f"token-{uuid.uuid4().hex}"
        path.write_text(token)
        return HttpSecurity(tls=self.tls, token_file=str(path))

    @property
    def certificate(self) -> HttpSecurity:
        return HttpSecurity(tls=Tls(ca=str(self.authority.ca), certificate=str(self.client.both)))

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "tls": {
                "certificate": str(self.server.certificate),
                "key": str(self.server.key),
                "client_ca": str(self.authority.ca),
                "client_certificates": "asked",
            },
            "users_file": str(self.users),
            "tokens_file": str(self.tokens),
            "permissions": PERMISSIONS,
        }

    def registry(
        self,
        directory: Path,
        brokers: str,
        *,
        zookeeper: str = "",
        settings: Mapping[str, object] | None = None,
    ) -> RegistryProcess:
        """The registry's process, which `root` queries by default."""
        return RegistryProcess(
            directory,
            brokers=brokers,
            zookeeper=zookeeper,
            settings=self.settings | (dict(settings or {})),
            access=self.login("root"),
        )


def ask(
    registry: RegistryProcess,
    access: HttpSecurity,
    method: str,
    path: str,
    body: object = None,
    **headers: str,
) -> tuple[int, Any]:
    """Returns status and document. Underscores in header names become hyphens."""
    content = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with HttpClient(parse_url(registry.url), access=HttpAccess(access)) as client:
        answer = client.ask(
            method, path, content, within=40, headers={"Accept": "application/json"} | named
        )
    return answer.status, json.loads(answer.body) if answer.body[:1] in b"[{0123456789" else None


def log_of(registry: RegistryProcess) -> str:
    return registry.process.output.read_text()


def outdated(directory: Path) -> Path:
    """An expired self-signed certificate for 127.0.0.1, with its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "outdated")])
    now = datetime.datetime.now(datetime.UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now - datetime.timedelta(days=1))
        .add_extension(host, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "outdated.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path
