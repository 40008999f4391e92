"""Tokens that are asked for: kept for most of their life, and no secret in what goes wrong."""

import http.server
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from client.connection.credentials import Credentials
from client.connection.logins import LoginFailed
from client.connection.security import Login, Mechanism
from harness.logins.made_secrets import made_secret

SECRET = made_secret("s3cret:with a colon")


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers as its server is told, and remembers what it was asked."""

    server: "Server"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.headers["Authorization"], body))
        status, answer = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.asked: list[tuple[str | None, bytes]] = []
        self.answer = (200, b'{"access_token": "t0", "expires_in": 3600, "token_type": "Bearer"}')

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


@contextmanager
def endpoint() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def credentials(server: Server, directory: Path) -> Credentials:
    secret = directory / "secret"
    secret.write_text(SECRET)
    return Credentials(
        Login(
            mechanism=Mechanism.OAUTHBEARER,
            token_url=server.url,
            client_id="me & you",
            client_secret_file=str(secret),
            scope="kafka",
        )
    )


def test_a_token_is_asked_for_once_while_it_lives(tmp_path: Path) -> None:
    with endpoint() as server:
        one = credentials(server, tmp_path)
        assert [one.secret(), one.secret()] == ["t0", "t0"]
        assert server.asked == [
            (
                f"Basic {b64encode(f'me%20%26%20you:{quote(SECRET)}'.encode()).decode()}",
                b"grant_type=client_credentials&scope=kafka",
            )
        ]


def test_and_again_before_its_end(tmp_path: Path) -> None:
    with endpoint() as server:
        server.answer = (200, b'{"access_token": "short", "expires_in": 0.5}')
        one = credentials(server, tmp_path)
        assert one.secret() == "short"
        server.answer = (200, b'{"access_token": "next", "expires_in": 3600}')
        time.sleep(0.45)
        assert one.secret() == "next"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            (401, b'{"error": "invalid_client", "text": "PEER SAYS"}'),
            "HTTP status 401",
        ),
        ((200, b"<html>PEER SAYS</html>"), "its answer is not a token"),
        ((200, b'{"access_token": ""}'), "its answer is not a token"),
        ((200, b"[" * 300_000), "its response has more than"),
    ],
)
def test_what_goes_wrong_is_said_without_a_secret(
    answer: tuple[int, bytes], why: str, tmp_path: Path
) -> None:
    with endpoint() as server:
        server.answer = answer
        with pytest.raises(LoginFailed, match=why) as failed:
            credentials(server, tmp_path).secret()
    said = str(failed.value)
    assert server.url.removesuffix("/token") in said
    assert SECRET not in said
    assert "PEER SAYS" not in said


def test_nobody_is_there(tmp_path: Path) -> None:
    with endpoint() as server:
        one = credentials(server, tmp_path)
    with pytest.raises(LoginFailed, match="no token from http"):
        one.secret()


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    with endpoint() as server:
        one = credentials(server, tmp_path)
        (tmp_path / "secret").unlink()
        with pytest.raises(LoginFailed, match="secret cannot be read: no such file or directory"):
            one.secret()
