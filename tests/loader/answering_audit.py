"""An HTTP server that answers as an audit would, or in any other way that a test wants."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def document(**given: object) -> bytes:
    known = {"complete": False, "by": "", "missing": "", "names": [], "later": 1}
    return json.dumps(known | given).encode()


@dataclass
class Said:
    """How an audit answers, and what it was asked."""

    status: int = 200
    body: bytes = b"{}"
    of_uncompared: bytes = b""  # to questions about uncompared offsets; empty: as to others
    pause: float = 0.0
    hang_up: bool = False  # after each answer, without saying so
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    connections: int = 0


@dataclass
class Answering:
    said: Said
    url: str


@contextmanager
def answering_audit() -> Iterator[Answering]:
    said = Said()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            said.connections += 1
            super().setup()

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            said.paths.add(url.path)
            said.asked.append(parse_qs(url.query))
            body = said.body
            if "uncompared" in said.asked[-1]:
                body = said.of_uncompared or body
            time.sleep(said.pause)
            self.send_response(said.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = said.hang_up

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Some hang up before they have heard all."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Answering(said, f"http://127.0.0.1:{server.server_address[1]}/behind")
        server.shutdown()
        thread.join()
