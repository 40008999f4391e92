"""A proxy between a loader and the audit, which passes on what is asked and answered, or something
else: the answers to POST are changed by a function, and heads files by another."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from ledger.certificate_requests import HEADS_PATH

# Takes the status and body of the audit's answer, and returns others; None hangs up.
Change = Callable[[int, bytes], tuple[int, bytes] | None]


def unchanged(status: int, body: bytes) -> tuple[int, bytes]:
    return status, body


@contextmanager
def proxy(audit_url: str, change: Change, heads: Change = unchanged) -> Iterator[str]:
    """Yields its URL."""
    audit = urlsplit(audit_url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            is_of_heads = self.path.startswith(HEADS_PATH)
            self._change(heads if is_of_heads else unchanged, None)

        def do_POST(self) -> None:
            self._change(change, self.rfile.read(int(self.headers["Content-Length"])))

        def _change(self, change: Change, body: bytes | None) -> None:
            changed = change(*self._passed_on(body))
            if changed is None:
                self.close_connection = True
            else:
                self._answer(*changed)

        def _passed_on(self, body: bytes | None) -> tuple[int, bytes]:
            assert audit.hostname is not None
            connection = http.client.HTTPConnection(audit.hostname, audit.port, timeout=60)
            try:
                headers = {} if body is None else {"Content-Type": self.headers["Content-Type"]}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
