"""Runs a Penstock audit as a child process (program.py).

It is ready once everything that was in the clusters' ledgers at its start has been read and judged.
Without a cluster, it counts as started once it has reported that.
"""

import http.client
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from harness.penstock.program import PenstockProcess
from harness.processes.server_process import free_ports

_NOBODY = "127.0.0.1:9"

A = TypeVar("A", bound=msgspec.Struct)


class Answer(NamedTuple):
    """A response; its status is 0 if the audit does not answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class AuditProcess(PenstockProcess):
    """One audit on loopback: `with AuditProcess(directory, brokers=…, registry=…) as audit`."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: str = _NOBODY,
        registry: str = "http://127.0.0.1:9",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._has_ledger = brokers != _NOBODY
        (self.port,) = (self.http_port,) = free_ports(1)
        self._tls: ssl.SSLContext | None = None
        self._headers: dict[str, str] = {}
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = directory / "data"
        config = {
            "data_dir": str(self.data_dir),
            "cluster": "test",
            "brokers": brokers.split(","),
            "registry": registry,
            "port": self.port,
            "poll": 0.1,
            **(settings or {}),
        }
        super().__init__("audit", directory, config)

    def use_tls(self, trust: Path, headers: Mapping[str, str]) -> None:
        """Makes requests use TLS and credentials, to match `settings`. `trust` is the authority of
        the audit's certificate; `headers` are sent with every request."""
        self._tls = ssl.create_default_context(cafile=str(trust))
        self._headers = dict(headers)
        self.url = f"https://127.0.0.1:{self.port}"

    def ready(self) -> bool:
        answer = self.ask("/readyz")
        return answer.status == 200 if self._has_ledger else b"cannot be read" in answer.body

    def ask(
        self,
        target: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        timeout: float = 40,
        body: bytes | None = None,
        address: str = "127.0.0.1",
    ) -> Answer:
        """Sends one request on a new connection, from the given one of this machine's addresses."""
        connection = self._connection(timeout, address)
        try:
            request_headers = self._headers if headers is None else dict(headers)
            connection.request(method, target, body, headers=request_headers)
            answer = connection.getresponse()
            return Answer(
                answer.status,
                answer.read(),
                {name.lower(): value for name, value in answer.getheaders()},
            )
        except (OSError, http.client.HTTPException):
            return Answer(0, b"", {})
        finally:
            connection.close()

    def _connection(self, timeout: float, address: str) -> http.client.HTTPConnection:
        options: dict[str, Any] = {"timeout": timeout, "source_address": (address, 0)}
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, **options)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, **options)

    def get(self, path: str, answered: type[A], **query: object) -> A:
        """Requests `/api/v1/{path}`. The names of parameters that are Python keywords end in
        `_`."""
        query_text = urlencode({name.rstrip("_"): value for name, value in query.items()})
        answer = self.ask(f"/api/v1/{path}?{query_text}")
        assert answer.status == 200, answer
        return msgspec.json.decode(answer.body, type=answered)
