"""The agent's pages, from when their address can be had.

An agent follows files, whoever has its port and whether the network is up or not: what is written
before may be gone by then. So the address is tried on a thread of its own, and again every few
seconds for as long as it cannot be had. Nothing is left behind in a crash.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from ground.listening import CannotListen
from ground.page_server import Page, PageServer

_AGAIN_SECONDS: Final = 3.0
_FIRST_SECONDS: Final = 1.0  # a name may be looked for longer than that
_END_SECONDS: Final = 1.0


class AgentServer:
    """`refused` says why nobody can ask; it is empty once somebody can. Started and stopped by one
    thread."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._host = host
        self._port = port
        self._pages = pages
        self._server: PageServer | None = None
        self._guard = threading.Lock()
        self._tried = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._try, name="http address", daemon=True)
        self.refused = f"it is not known yet whether {host}:{port} can be listened on"

    @property
    def port(self) -> int:
        """0 while nobody can ask."""
        return self._server.port if self._server is not None else 0

    def start(self) -> None:
        """Waits for a moment, so that usually it is known how the first attempt ended."""
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
                server = PageServer(self._host, self._port, self._pages)
            except (CannotListen, OSError, UnicodeError) as error:  # no files left, no such name
                self.refused = str(error)
            else:
                self._take(server)
                return
            self._tried.set()
            self._stopping.wait(_AGAIN_SECONDS)

    def _take(self, server: PageServer) -> None:
        server.start()
        with self._guard:
            wanted = not self._stopping.is_set()
            if wanted:
                self._server = server
                self.refused = ""
        if not wanted:
            server.stop()
        self._tried.set()
