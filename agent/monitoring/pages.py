"""Serves the agent's pages /metrics, /healthz, /readyz and /status.

An agent must follow files even if its port is in use or the network is down, since files may be
gone later. So a thread tries to listen, and retries every few seconds while the address or the
certificate and token files are not available. A crash leaves nothing behind.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from prometheus_client.metrics_core import Metric

from agent.monitoring.metrics import families
from agent.monitoring.status import STATUS_PATH, Status, why_not_ready
from ground.http.exposition import EXPOSITION_TYPE, exposition_of
from ground.http.page_door import BadLocks, PageDoor
from ground.http.page_locks import PageLocks
from ground.http.page_server import Page, PageServer, readiness_page, text_page
from ground.network.listening import CannotListen
from ground.network.refusals import Refusals

_KEPT_SECONDS: Final = 1.0


def agent_pages(
    status: Callable[[], Status],
    stuck: Callable[[], str],
    more: Callable[[], Iterable[Metric]] = tuple,
) -> Mapping[str, Callable[[], Page]]:
    """The pages by path. `stuck` returns why the agent makes no progress, or empty text; `more`
    returns metrics in addition to those of the status."""
    exposition = exposition_of(lambda: (*families(status()), *more()))
    return {
        "/metrics": lambda: Page(exposition(), EXPOSITION_TYPE),
        "/healthz": lambda: _health(stuck()),
        "/readyz": lambda: readiness_page(why_not_ready(status())),
        STATUS_PATH: _StatusPage(status),
    }


def _health(stuck: str) -> Page:
    return text_page(stuck, HTTPStatus.SERVICE_UNAVAILABLE) if stuck else text_page("alive")


class _StatusPage:
    """The status page. With 10,000 files it takes megabytes, so it is cached for a moment: many
    slow clients share one copy."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status
        self._made = -_KEPT_SECONDS
        self._page = Page(b"")

    def __call__(self) -> Page:
        now = time.monotonic()
        if now - self._made >= _KEPT_SECONDS:
            self._page = Page(msgspec.json.encode(self._status()) + b"\n", "application/json")
            self._made = now
        return self._page


_AGAIN_SECONDS: Final = 3.0
_FIRST_SECONDS: Final = 1.0  # resolving a name may take longer
_END_SECONDS: Final = 1.0


class AgentServer:
    """The server of the agent's pages. `refused` is the reason why it does not listen yet; empty if
    it listens. One thread starts and stops it."""

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Callable[[], Page]],
        locks: PageLocks,
        refusals: Refusals,
    ) -> None:
        self._host = host
        self._port = port
        self._pages = pages
        self._locks = locks
        self._refusals = refusals
        self._server: PageServer | None = None
        self._guard = threading.Lock()
        self._tried = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._try, name="http address", daemon=True)
        self.refused = f"still trying to listen on {host}:{port}"

    @property
    def port(self) -> int:
        return self._server.port if self._server is not None else 0

    def start(self) -> None:
        """Starts the thread, and waits a moment for its first attempt."""
        self._thread.start()
        self._tried.wait(_FIRST_SECONDS)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        with self._guard:
            server, self._server = self._server, None
        if server is not None:
            server.stop()

    def _try(self) -> None:
        while not self._stopping.is_set():
            try:
                page_door = PageDoor(self._locks, self._refusals)
                server = PageServer(self._host, self._port, self._pages, page_door)
            # No descriptors left, or unknown host name.
            except (BadLocks, CannotListen, OSError, UnicodeError) as error:
                self.refused = str(error)
            else:
                self._take(server)
                return
            self._tried.set()
            self._stopping.wait(_AGAIN_SECONDS)

    def _take(self, server: PageServer) -> None:
        server.start()
        with self._guard:
            is_running = not self._stopping.is_set()
            if is_running:
                self._server = server
                self.refused = ""
        if not is_running:
            server.stop()
        self._tried.set()
