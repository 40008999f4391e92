"""The generator of requests, against a small server: what it counts is what was asked."""

import http.server
import itertools
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.loads.registry_load import load
from bench.loads.registry_requests import get
from bench.loads.requests import AnswerError
from bench.servers.registry_servers import Registry


class _Server(http.server.ThreadingHTTPServer):
    """Notes what it is asked, and over how many connections."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.connections = 0
        self.lock = threading.Lock()
        self.registry = Registry("small", "127.0.0.1", self.server_port)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.asked[self.path] += 1
        if self.path == "/gone":
            self.close_connection = True
            return
        body = b"[" + b"1," * (50_000 if self.path == "/long" else 1) + b"1]"
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _requests(*paths: str, keep_alive: bool = True) -> Iterator[bytes]:
    return (get(path, keep_alive=keep_alive) for path in paths)


def test_each_request_is_sent_once_over_as_many_connections_as_are_wanted(server: _Server) -> None:
    paths = [f"/{number}" for number in range(50)]
    answered = load(server.registry, _requests(*paths), connections=4, seconds=60)
    assert server.asked == Counter(paths)
    assert server.connections == 4
    assert answered.requests == 50
    assert 0 < answered.latencies.sorted[0] <= answered.latencies.sorted[-1]
    assert answered.latencies.sorted[-1] <= answered.seconds * 1e9
    assert answered.rate == pytest.approx(50 / answered.seconds)


def test_each_request_can_have_a_connection_of_its_own(server: _Server) -> None:
    requests = _requests(*["/1"] * 20, keep_alive=False)
    answered = load(server.registry, requests, connections=3, seconds=60, keep_alive=False)
    assert (answered.requests, server.connections) == (20, 20)


def test_it_ends_when_the_time_is_over(server: _Server) -> None:
    answered = load(server.registry, itertools.cycle([get("/1")]), connections=2, seconds=0.5)
    assert 0.5 <= answered.seconds < 60
    assert answered.requests == server.asked["/1"] > 2


@pytest.mark.parametrize(
    ("path", "why"),
    [("/missing", r"answered b'404 Not Found.*\[1,1\]'"), ("/gone", "closed a connection")],
)
def test_what_is_not_answered_ends_the_run(server: _Server, path: str, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        load(server.registry, _requests("/1", path, "/1"), connections=1, seconds=60)
