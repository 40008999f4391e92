"""A scripted peer of the registry under test."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self

from registry.log.forwarding import OFFSET


class Asked(NamedTuple):
    """A request, and the number of its connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


def read_up_to(offset: int) -> Answer:
    return Answer(headers={OFFSET: str(offset)})


NOT_WRITER = Answer(500, b'{"error_code":50004,"message":"Leader not known."}')
BREAK = None  # the connection, without an answer

Script = Callable[[Asked], Answer | None]


class Peer:
    """`with Peer(script) as peer`; `script` runs for each request, on several threads."""

    def __init__(self, script: Script) -> None:
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self.connections = 0
        self._now = 0
        self._lock = threading.Lock()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def setup(self) -> None:
                super().setup()
                with peer._lock:
                    peer.connections += 1
                    self.number = peer.connections

            def serve(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, self.rfile.read(size), self.number)
                with peer._lock:
                    peer.asked.append(asked)
                    peer._now += 1
                    peer.most_at_once = max(peer.most_at_once, peer._now)
                try:
                    answer = script(asked)
                finally:
                    with peer._lock:
                        peer._now -= 1
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_PUT = do_POST = do_DELETE = serve  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = False
            block_on_close = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def slowly(_: Asked) -> Answer:
    time.sleep(0.1)
    return Answer()
