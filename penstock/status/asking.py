"""The parts of a pipeline asked how they stand, each on its own; and asked again and again.

Asked side by side, each within a short time: one that is away leaves its part of the
`PipelineStatus` empty and a line among its problems. Nothing here raises for what others do or
answer.

The latest `PipelineStatus` is kept by a thread of its own, so that whoever shows it never waits.
That thread is a daemon's and remembers nothing: it can be left behind at any time.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Self, TypeVar

import msgspec

from agent.status import STATUS_PATH, Status
from client.errors import ClientError
from ground.http.client import HttpClient, HttpUrl, parse_program_url
from ground.http.security import HttpAccess, access_to
from ground.known_types import known_type
from penstock.connections.reachability import registry_failure
from penstock.directory.pipeline_access import PipelineAccess
from penstock.status.audit import AskingAudit
from penstock.status.cluster import AskingBrokerPages, AskingCluster, page_addresses
from penstock.status.joining import StatusParts, joined
from penstock.status.part import NoStatus, Part, Silent, said_by
from penstock.status.values import PipelineStatus
from schemas.errors import RegistryError, SchemaError
from schemas.registry_client import RegistryClient

T = TypeVar("T")
_SECONDS: Final = 2.0
_LONGEST: Final = 300  # of what is said about one
EVERY_SECONDS: Final = 1.0


class Asking:
    """Asks again and again, and keeps connections for that. One thread at a time. A context."""

    def __init__(
        self,
        pipeline_access: PipelineAccess,
        *,
        within: float = _SECONDS,
    ) -> None:
        """ValueError, BadAddress if an address cannot be understood. Nobody is asked yet.

        `within` so many seconds all of them answer, or are said not to.
        """
        self._within = within
        addresses = pipeline_access.addresses
        cluster = AskingCluster(addresses.brokers, pipeline_access.security)
        audit = AskingAudit(
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
        self._status = _part_of_agent(pipeline_access, within) if addresses.agent else None
        self._audit = Part(f"audit at {addresses.audit}", audit.ask, audit.close, every=2)
        self._pages = {
            str(at): _part_of_pages(at, within, access_to(pipeline_access.broker_http_security))
            for at in page_addresses(addresses.broker_http)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Does not wait for answers that are outstanding."""
        for part in self._all:
            part.close()

    def ask(self) -> PipelineStatus:
        """How everything stands now."""
        for part in self._all:
            part.ask()
        deadline = time.monotonic() + self._within
        silent: list[str] = []
        cluster = self._answer(self._brokers, deadline, silent)
        without_page: list[str] = []
        pages = {at: self._answer(part, deadline, without_page) for at, part in self._pages.items()}
        if cluster is not None:  # or it has been said that nobody answers
            silent += without_page
        return joined(
            StatusParts(
                cluster=cluster,
                broker_remarks={at: said for at, said in pages.items() if said},
                subjects=self._answer(self._subjects, deadline, silent),
                agent=self._answer(self._status, deadline, silent),
                audit=self._answer(self._audit, deadline, silent),
                silent=silent,
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
            words = str(error).removeprefix(part.name.rpartition(" ")[2]).lstrip(": ")
            said = words if words.startswith("no ") else f"no {part.name}: {words}"
            silent.append(said[:_LONGEST])
        return None


def _part_of_agent(pipeline_access: PipelineAccess, within: float) -> Part[Status]:
    at = pipeline_access.addresses.agent
    client = HttpClient(parse_program_url(at), access=access_to(pipeline_access.agent_security))

    def ask() -> Status:
        body = said_by(client, STATUS_PATH, within=within)
        try:
            return msgspec.json.decode(body, type=known_type(Status))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoStatus(f"the server is not an agent of this release: {error}") from None

    return Part(f"agent at {at}", ask, client.close, every=1)


def _part_of_pages(at: HttpUrl, within: float, access: HttpAccess) -> Part[Sequence[str]]:
    pages = AskingBrokerPages(at, within=within, access=access)
    return Part(f"broker's page at {at}", pages.ask, pages.close, every=2)


class KeptStatus:
    """Asks again and again from when it is entered until it is left. A context."""

    def __init__(self, asking: Asking, every_seconds: float = EVERY_SECONDS) -> None:
        """`asking` is closed in the end."""
        self._asking = asking
        self._every = every_seconds
        self._left = threading.Event()
        self._latest: PipelineStatus | None = None
        self._thread = threading.Thread(target=self._run, name="standing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Does not wait for an answer that is outstanding."""
        self._left.set()

    @property
    def latest(self) -> PipelineStatus | None:
        """None until everybody was asked once."""
        return self._latest

    def _run(self) -> None:
        with self._asking as asking:
            due = time.monotonic()
            while not self._left.wait(max(0.0, due - time.monotonic())):
                due = time.monotonic() + self._every
                self._latest = asking.ask()
