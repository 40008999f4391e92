"""One program asked over HTTP again and again, on a connection that is kept where it can be.

Rule 1: an answer has one deadline, its head included, and a bound on its size, whatever is sent.
Rule 2: a connection that was kept may have been closed meanwhile: then the question is put once
        more, on a new one.
"""

import http.client
import socket
import time
from http import HTTPStatus
from typing import Final

from penstock.http_address import HttpAddress
from schemas.remote.bounded_response import TooMuch, bounded_response, read_body

_MOST_BYTES: Final = 64 * 1024 * 1024
_CONNECTIONS: Final = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_QUOTED: Final = 200


class NoAnswer(Exception):
    """In words, for the end of a sentence. They may quote what was answered."""


class HttpConversation:
    """One thread at a time."""

    def __init__(self, at: HttpAddress, *, most_bytes: int = _MOST_BYTES) -> None:
        self.at = at
        self._most = most_bytes
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def get(self, target: str, *, within: float) -> bytes:
        """The body of a good answer. Raises NoAnswer."""
        deadline = time.monotonic() + within
        was_kept = self._kept is not None
        try:
            try:
                return self._get(target, deadline)
            except (http.client.HTTPException, ConnectionError):
                self.close()
                if not was_kept:
                    raise
                return self._get(target, deadline)
        except TimeoutError:
            raise self._ended(f"no answer within {within:g} s") from None
        except TooMuch as error:
            raise self._ended(f"it answers with {error}") from None
        except OSError as error:
            raise self._ended((error.strerror or str(error)).lower()) from None
        except (http.client.HTTPException, ValueError) as error:
            raise self._ended(f"it does not speak HTTP ({type(error).__name__})") from None

    def _ended(self, why: str) -> NoAnswer:
        self.close()
        return NoAnswer(why)

    def _get(self, target: str, deadline: float) -> bytes:
        left = max(0.001, deadline - time.monotonic())
        if self._kept is None:
            self._kept = _CONNECTIONS[self.at.scheme](self.at.host, self.at.port, timeout=left)
            self._kept.connect()
        connection = self._kept

        def bounded(sock: socket.socket, *_: object, **__: object) -> http.client.HTTPResponse:
            return bounded_response(sock, "GET", deadline)

        connection.response_class = bounded
        connection.sock.settimeout(left)
        connection.request("GET", self.at.path + target, headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            body = read_body(response, self._most)
            ends = response.will_close
        if ends:
            self.close()
        if response.status != HTTPStatus.OK:
            said = body[:_QUOTED].decode(errors="replace").strip()
            raise NoAnswer(f"it answers {response.status} {said}".rstrip())
        return body
