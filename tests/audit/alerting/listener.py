"""A receiver of alerts: a real HTTP server, which can be told to refuse."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Listener:
    """`with Listener() as listener`: its `url`, and the `posts` that it took."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.refused = 0
        self.status = 200
        self.refuses = b"nothing"  # is answered with 400 where it is in
        self.before: Callable[[], object] = lambda: None  # called before an answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook?key=secret"

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """Status, kind, and topic or hosts of all that it was told."""
        return [
            (each["status"], each["kind"], each["topic"] or ",".join(each["hosts"]))
            for each in self.posts
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.before()
                status = 400 if listener.refuses in body else listener.status
                if status == 200:
                    said = json.loads(body)
                    said = {"alerts": said} if isinstance(said, list) else said
                    listener.posts.append({"target": self.path, **said})
                else:
                    listener.refused += 1
                self.send_response(status)
                self.send_header("Content-Length", str(len(self.path)))
                self.end_headers()
                self.wfile.write(self.path.encode())  # as some do, in words for people

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
