"""Collects the status of a pipeline from its brokers, registry, agent and audit.

All are asked in parallel, each with a short time limit. One that does not answer leaves its part of
the `PipelineStatus` empty and adds a line to its problems. Whatever the servers answer, nothing
here raises.

`LatestStatus` collects repeatedly on a daemon thread of its own, so that the screen never waits.
The thread has no state worth saving, and may be abandoned at any time.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Self, TypeVar

import msgspec

from agent.monitoring.status import STATUS_PATH, Status
from client.errors import ClientError
from ground.http.client import HttpClient, HttpUrl, parse_program_url
from ground.http.security import HttpAccess, access_to
from ground.known_types import known_type
from penstock.connections.reachability import registry_failure
from penstock.directory.pipeline_access import PipelineAccess
from penstock.status.assembly import StatusParts, assembled
from penstock.status.audit import AuditQuery
from penstock.status.cluster import BrokerPageQuery, ClusterQuery, page_addresses
from penstock.status.part import NoStatus, Part, Silent, body_of
from penstock.status.values import PipelineStatus
from schemas.errors import RegistryError, SchemaError
from schemas.registry_client import RegistryClient

T = TypeVar("T")
_SECONDS: Final = 2.0
_LONGEST: Final = 300  # characters of one problem
EVERY_SECONDS: Final = 1.0


class StatusCollector:
    """Collects statuses over connections that it keeps open. For one thread. A context."""

    def __init__(
        self,
        pipeline_access: PipelineAccess,
        *,
        within: float = _SECONDS,
    ) -> None:
        """Connects to nothing yet. Raises ValueError or BadAddress if an address is malformed.

        `within`: seconds until a server that has not answered counts as silent.
        """
        self._within = within
        addresses = pipeline_access.addresses
        cluster = ClusterQuery(addresses.brokers, pipeline_access.security)
        audit = AuditQuery(
            parse_program_url(addresses.audit),
            within=within,
            access=access_to(pipeline_access.audit_security),
        )
        self._registry_urls = pipeline_access.registry.urls
        self._registry = RegistryClient(
            pipeline_access.registry,
            patience_seconds=0,
            first_contact_seconds=0,
            attempt_seconds=within,
        )
        self._brokers = Part(f"broker at {addresses.brokers}", cluster.ask, cluster.close, every=0)
        self._subjects = Part(
            f"registry at {addresses.registry}", self._ask_registry, self._registry.close, every=5
        )
        self._status = _agent_part(pipeline_access, within) if addresses.agent else None
        self._audit = Part(f"audit at {addresses.audit}", audit.ask, audit.close, every=2)
        self._pages = {
            str(url): _pages_part(url, within, access_to(pipeline_access.broker_http_security))
            for url in page_addresses(addresses.broker_http)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections, without waiting for outstanding answers."""
        for part in self._all:
            part.close()

    def ask(self) -> PipelineStatus:
        """Collects the current status of all parts, and returns it."""
        for part in self._all:
            part.ask()
        deadline = time.monotonic() + self._within
        silent_parts: list[str] = []
        cluster = self._answer(self._brokers, deadline, silent_parts)
        failures: list[str] = []
        pages = {url: self._answer(part, deadline, failures) for url, part in self._pages.items()}
        if cluster is not None:  # otherwise the brokers are already reported as silent
            silent_parts += failures
        return assembled(
            StatusParts(
                cluster=cluster,
                broker_remarks={url: remarks for url, remarks in pages.items() if remarks},
                subjects=self._answer(self._subjects, deadline, silent_parts),
                agent=self._answer(self._status, deadline, silent_parts),
                audit=self._answer(self._audit, deadline, silent_parts),
                silent=silent_parts,
            ),
            int(time.time() * 1000),
        )

    @property
    def _all(self) -> tuple[Part[Any], ...]:
        pages = self._pages.values()
        agents = () if self._status is None else (self._status,)
        return (self._brokers, self._subjects, *agents, self._audit, *pages)

    def _ask_registry(self) -> int:
        try:
            return len(self._registry.subjects())
        except RegistryError as error:
            raise NoStatus(registry_failure(error, self._registry_urls)) from None

    def _answer(self, part: Part[T] | None, deadline: float, silent: list[str]) -> T | None:
        if part is None:
            return None
        try:
            return part.answer(deadline)
        except Silent:
            silent.append(f"no {part.name}: no answer within {self._within:g} s")
        except (ClientError, NoStatus, SchemaError) as error:
            # Some say by themselves who it is, or where.
            message = str(error).removeprefix(part.name.rpartition(" ")[2]).lstrip(": ")
            is_named = message.startswith(f"no {part.name.partition(' ')[0]} ")
            problem = message if is_named else f"no {part.name}: {message}"
            silent.append(problem[:_LONGEST])
        return None


def _agent_part(pipeline_access: PipelineAccess, within: float) -> Part[Status]:
    url = pipeline_access.addresses.agent
    client = HttpClient(parse_program_url(url), access=access_to(pipeline_access.agent_security))

    def ask() -> Status:
        body = body_of(client, STATUS_PATH, within=within)
        try:
            return msgspec.json.decode(body, type=known_type(Status))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoStatus(f"the server is not an agent of this release: {error}") from None

    return Part(f"agent at {url}", ask, client.close, every=1)


def _pages_part(at: HttpUrl, within: float, access: HttpAccess) -> Part[Sequence[str]]:
    pages = BrokerPageQuery(at, within=within, access=access)
    return Part(f"broker's page at {at}", pages.ask, pages.close, every=2)


class LatestStatus:
    """Collects the status repeatedly while its context is open."""

    def __init__(self, collector: StatusCollector, every_seconds: float = EVERY_SECONDS) -> None:
        """`collector` is closed at the end."""
        self._collector = collector
        self._every = every_seconds
        self._exited = threading.Event()
        self._latest: PipelineStatus | None = None
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, without waiting for an outstanding answer."""
        self._exited.set()

    @property
    def latest(self) -> PipelineStatus | None:
        """The latest status; None until the first collection has ended."""
        return self._latest

    def _run(self) -> None:
        with self._collector as collector:
            due_time = time.monotonic()
            while not self._exited.wait(max(0.0, due_time - time.monotonic())):
                due_time = time.monotonic() + self._every
                self._latest = collector.ask()
