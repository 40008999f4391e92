"""Runs a Penstock registry as a child process (program.py)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ground.http.client import HttpClient, HttpError, parse_url
from ground.http.security import HttpAccess, HttpSecurity
from harness.penstock.program import PenstockProcess
from harness.processes.server_process import free_ports

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class Answer(NamedTuple):
    """A response: status, and body as JSON values. The status is 0 if the registry does not
    answer."""

    status: int
    body: Any


class RegistryProcess(PenstockProcess):
    """One registry on loopback: `with RegistryProcess(directory, brokers=...) as registry`."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: str,
        zookeeper: str = "",
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        access: HttpSecurity | None = None,
    ) -> None:
        """With an `access` it uses TLS, and requests do too."""
        (self.port,) = (self.http_port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self.access = access
        self.url = f"{'https' if access and access.tls is not None else 'http'}://{self.address}"
        config = {
            "cluster": "test",
            "host": "127.0.0.1",
            "port": self.port,
            "brokers": brokers.split(","),
            **({"zookeeper": zookeeper} if zookeeper else {}),
            **(settings or {}),
        }
        super().__init__("registry", directory, config, environment=environment)

    def ready(self) -> bool:
        return self.ask("GET", "/readyz").status == 200

    def ask(self, method: str, path: str, body: object = None, *, timeout: float = 40) -> Answer:
        """Sends one request on a new connection."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": CONTENT_TYPE}
        access = HttpAccess(self.access) if self.access else None
        try:
            with HttpClient(parse_url(self.url), access=access) as client:
                answer = client.ask(
                    method, path, content, within=timeout, headers=headers, repeatable=False
                )
        except HttpError:
            return Answer(0, None)
        text = answer.body.decode()
        try:
            return Answer(answer.status, json.loads(text))
        except ValueError:
            return Answer(answer.status, text)

    def register(self, subject: str, schema: object, *, timeout: float = 40) -> Answer:
        """Registers an Avro schema, given as JSON values."""
        body = {"schema": json.dumps(schema)}
        return self.ask("POST", f"/subjects/{subject}/versions", body, timeout=timeout)

    @property
    def is_writer(self) -> bool:
        metrics = self.ask("GET", "/metrics").body
        return isinstance(metrics, str) and "penstock_registry_writer 1.0" in metrics
