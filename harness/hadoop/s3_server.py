"""`python -m harness.hadoop.s3_server PORT LOG`: moto's S3 on loopback, one request at a time.

Moto checks the condition of a conditional PUT before it stores the object, and would let two
concurrent ones pass; S3 lets one pass. Each request is a line of the log: the method, or LIST or
COPY, the path, and the status.
"""

import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class _KeepingConnections(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 -- werkzeug's name
        """Does nothing: the log of requests has it."""


class _InTurn:
    """A WSGI application that serves and logs one request after the other."""

    def __init__(self, served: Any, log: IO[str]) -> None:
        self._served = served
        self._log = log
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        statuses: list[str] = []

        def start(status: str, headers: Any, *more: Any) -> Any:
            statuses.append(status[:3])
            return start_response(status, headers, *more)

        with self._lock:
            body = list(self._served(environ, start))
            print(_kind(environ), environ["PATH_INFO"], statuses[-1], file=self._log, flush=True)
        return body


def _kind(environ: dict[str, Any]) -> str:
    method = str(environ["REQUEST_METHOD"])
    if method == "GET" and "list-type" in environ.get("QUERY_STRING", ""):
        return "LIST"
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "COPY"
    return method


def main(port: str, log: str) -> None:
    with Path(log).open("a") as file:
        application = _InTurn(DomainDispatcherApplication(create_backend_app), file)
        run_simple(
            "127.0.0.1",
            int(port),
            application,
            threaded=True,
            request_handler=_KeepingConnections,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
