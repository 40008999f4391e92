"""A program asked over HTTP, whatever it answers."""

import socket

import pytest

from penstock.http_address import HttpAddress
from penstock.standing.http_conversation import HttpConversation, NoAnswer
from tests.penstock.standing.peers import Peer, answer, peer, request

LONG = 30.0


def asked(port: int, *, within: float = LONG, most_bytes: int = 1_000) -> bytes:
    conversation = HttpConversation(HttpAddress("http", "127.0.0.1", port), most_bytes=most_bytes)
    try:
        return conversation.get("/x", within=within)
    finally:
        conversation.close()


def sends(content: bytes) -> Peer:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(content)

    return serve


def test_a_connection_is_kept_and_made_anew_when_it_was_closed() -> None:
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        for _ in range(2):
            head = request(connection)
            assert head.startswith(b"GET /below/x?y=1 HTTP/1.1\r\n")
            connection.sendall(answer(b"%d" % len(connections)))

    with peer(serve) as port:
        conversation = HttpConversation(HttpAddress("http", "127.0.0.1", port, "/below"))
        said = [conversation.get("/x?y=1", within=LONG) for _ in range(4)]
        conversation.close()
    assert said == [b"1", b"1", b"2", b"2"]


def test_a_server_that_closes_each_connection() -> None:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nyes")

    with peer(serve) as port:
        conversation = HttpConversation(HttpAddress("http", "127.0.0.1", port))
        assert [conversation.get("/", within=LONG) for _ in range(2)] == [b"yes", b"yes"]
        conversation.close()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", r"does not speak HTTP|closed"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1_000 + b"\r\n", "does not speak HTTP"),
        (answer(b"short", length=100), "does not speak HTTP"),
        (answer(b"", length=10**12), "more than 1,000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000, "more than 1,000 bytes"),
        (answer(b"no\x1b[2J", status="404 Not Found"), "it answers 404 no"),
    ],
)
def test_what_is_no_good_answer(content: bytes, why: str) -> None:
    with peer(sends(content)) as port, pytest.raises(NoAnswer, match=why):
        asked(port)


def test_who_sends_a_byte_now_and_then_is_not_waited_for() -> None:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
        connection.settimeout(0.05)
        while True:
            connection.sendall(b"x")
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue

    with peer(serve) as port, pytest.raises(NoAnswer, match=r"no answer within 0\.3 s"):
        asked(port, within=0.3)


def test_who_says_nothing_is_not_waited_for() -> None:
    def serve(connection: socket.socket) -> None:
        while request(connection):
            pass

    with peer(serve) as port, pytest.raises(NoAnswer, match=r"no answer within 0\.2 s"):
        asked(port, within=0.2)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NoAnswer, match="connection refused"):
        asked(port)
