"""The broker's HTTP server, over real sockets: with well-behaved clients and others."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from broker.monitoring.metrics import BrokerMetrics
from broker.monitoring.pages import BrokerHttpServer
from ground.network.listening import CannotListen
from harness.processes.crowding import Patience
from harness.processes.waiting import wait_until


@dataclass
class Broker:
    """What the server asks: settable."""

    not_ready: str = "opening logs"
    zookeeper: str = "connected"

    @property
    def state(self) -> str:
        if not self.zookeeper:
            raise ValueError("no state")
        return self.zookeeper


@pytest.fixture
def broker() -> Broker:
    return Broker()


def made(broker: Broker, port: int = 0) -> BrokerHttpServer:
    metrics = BrokerMetrics(lambda: ())
    metrics.topic("views").bytes_in += 42
    return BrokerHttpServer(
        "127.0.0.1",
        port,
        metrics,
        readiness=lambda: broker.not_ready,
        health=lambda: broker.state,
        signing_key="0a1b",
    )


@pytest.fixture
def server(broker: Broker) -> Iterator[BrokerHttpServer]:
    server = made(broker)
    server.start()
    yield server
    server.stop()


def ask(
    server: BrokerHttpServer, path: str, method: str = "GET"
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def send(server: BrokerHttpServer, data: bytes) -> bytes:
    """Everything the server says to raw bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(data)
        with contextlib.suppress(OSError):  # it may be closed already: that is what is read then
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def test_metrics_are_served_in_prometheus_format(server: BrokerHttpServer) -> None:
    status, headers, body = ask(server, "/metrics")

    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'penstock_broker_topic_bytes_in_total{topic="views"} 42.0\n' in body


def test_healthz_tells_the_state_of_the_session(server: BrokerHttpServer, broker: Broker) -> None:
    assert ask(server, "/healthz")[::2] == (
        200,
        b"alive\nzookeeper: connected\nsigning key: 0a1b\n",
    )
    broker.zookeeper = "suspended"
    assert ask(server, "/healthz")[2].splitlines()[1] == b"zookeeper: suspended"


def test_readyz_says_why_not_until_it_is_ready(server: BrokerHttpServer, broker: Broker) -> None:
    assert ask(server, "/readyz")[::2] == (503, b"not ready: opening logs\n")
    broker.not_ready = ""
    assert ask(server, "/readyz")[::2] == (200, b"ready\n")


def test_head_has_headers_and_no_body_and_a_query_is_passed_over(server: BrokerHttpServer) -> None:
    status, headers, body = ask(server, "/healthz?verbose=1", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "45", b"")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../healthz HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", b"431"),
    ],
)
def test_what_is_not_served_gets_its_status(
    server: BrokerHttpServer, request_: bytes, status: bytes
) -> None:
    answer = send(server, request_)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert (b"\r\nAllow: GET, HEAD\r\n" in answer) == (status == b"405")
    assert ask(server, "/healthz")[0] == 200


def test_a_client_that_never_finishes_is_cut_off_in_time(server: BrokerHttpServer) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        stop = threading.Event()

        def dribble() -> None:
            while not stop.wait(0.2):
                try:
                    connection.sendall(b"G")
                except OSError:
                    return

        dribbling = threading.Thread(target=dribble)
        dribbling.start()
        assert read_all(connection) == b""
        stop.set()
        dribbling.join()
    assert 4 < time.monotonic() - began < 60


@contextlib.contextmanager
def slow_clients(server: BrokerHttpServer, count: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            address = ("127.0.0.1", server.port)
            stack.enter_context(socket.create_connection(address, timeout=20))
        yield


def test_slow_clients_do_not_keep_others_out(server: BrokerHttpServer) -> None:
    with slow_clients(server, 20):
        assert ask(server, "/healthz")[0] == 200


def test_connections_beyond_the_limit_are_closed_at_once(server: BrokerHttpServer) -> None:
    with slow_clients(server, 32):
        patience = Patience(3)
        assert send(server, b"GET /healthz HTTP/1.1\r\n\r\n") == b""
        assert not patience.is_over()
    wait_until(lambda: send(server, b"GET /healthz HTTP/1.1\r\n\r\n") != b"")


def test_a_failure_in_what_is_asked_is_a_500_and_no_more(
    server: BrokerHttpServer, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.zookeeper, broker.not_ready = "", ""
    assert ask(server, "/healthz")[0] == 500
    assert ask(server, "/readyz")[0] == 200
    assert "no state" in caplog.text


def test_a_taken_port_is_named(server: BrokerHttpServer, broker: Broker) -> None:
    named = f"cannot listen on 127.0.0.1:{server.port}: .* choose another `http_port`"
    with pytest.raises(CannotListen, match=named):
        made(broker, server.port)


def test_it_stops_with_clients_connected_and_frees_its_port(broker: Broker) -> None:
    server = made(broker)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET /h")
        server.stop()
        assert read_all(connection) == b""
    socket.create_server(("127.0.0.1", server.port)).close()


def test_no_request_is_logged(server: BrokerHttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        ask(server, "/metrics")
        send(server, b"nonsense\r\n\r\n")
    assert caplog.text == ""
