"""Something that answers as an audit does, with what a test made up, and remembers what it was
asked."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

Query = Mapping[str, str]
Answers = Callable[[str, Query], tuple[int, bytes]]


class Answering(NamedTuple):
    """Where it is, and the queries, in their order."""

    url: str
    asked: list[tuple[str, Query]]


@contextmanager
def answering(answers: Answers) -> Iterator[Answering]:
    """`answers` gets the path below /api/v1/ and the query."""
    asked: list[tuple[str, Query]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            path = parts.path.removeprefix("/api/v1/")
            is_page = path != "/healthz"
            asked.extend([(path, query)] * is_page)
            status, body = answers(path, query) if is_page else (200, b"")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield Answering(f"http://127.0.0.1:{server.server_port}", asked)
        finally:
            server.shutdown()
            thread.join()


def always(answer: msgspec.Struct) -> Answers:
    return lambda _path, _query: (200, msgspec.json.encode(answer))
