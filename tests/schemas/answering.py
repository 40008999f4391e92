"""A scripted HTTP server on a thread."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec


class Asked(msgspec.Struct, frozen=True):
    """A received request."""

    method: str
    path: str
    document: object
    connection: int


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: "Answering"

    def do_GET(self) -> None:
        if self.path == "/":  # a command asks whether it answers at all
            says({})(self)
            return
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        self.server.asked.append(
            Asked(
                self.command, self.path, json.loads(body) if body else None, self.client_address[1]
            )
        )
        self.server.next_answer()(self)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 names that http.server wants

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: the tests look at `asked`."""


Answer = Callable[[Handler], None]


class Answering(ThreadingHTTPServer):
    """Gives the answers in turn, and then repeats the last one."""

    daemon_threads = True

    def __init__(self, answers: Sequence[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self._answers = deque(answers)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def paths(self) -> list[str]:
        return [each.path for each in self.asked]

    def next_answer(self) -> Answer:
        with self._lock:
            return self._answers.popleft() if len(self._answers) > 1 else self._answers[0]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores disconnected clients."""


@contextmanager
def answering(*answers: Answer) -> Iterator[Answering]:
    with Answering(answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


def says(document: object, status: int = 200) -> Answer:
    """A JSON answer on a connection that stays open."""

    def answer(handler: Handler) -> None:
        body = json.dumps(document).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def refuses(status: int, code: int, message: str = "no") -> Answer:
    return says({"error_code": code, "message": message}, status)


def sends(*parts: bytes, every: float = 0, for_ever: bool = False) -> Answer:
    """These bytes, with pauses in between; then the connection closes."""

    def answer(handler: Handler) -> None:
        handler.close_connection = True
        while True:
            for part in parts:
                if handler.server.over.wait(every):
                    return
                handler.wfile.write(part)
            if not for_ever:
                return

    return answer


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True
