"""Clients that do not read, hardly write, come in thousands or leave in the middle.

The broker's memory stays within its configured limits, and a client that behaves is served
throughout. The broker of this module is told to wait three seconds for the rest of a request.
"""

import contextlib
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.bystander import Bystander, Served
from tests.system.raw import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Closed,
    RawConnection,
    fetch_body,
    int32,
    metadata_body,
    produce_body,
    read_fetched,
    read_produced,
    record_batch,
    request,
)
from tests.system.topics import create

MIB = 1024 * 1024
SLACK = 80 * MIB
STALLED_SECONDS = 3.0
LARGE_RECORDS = 60


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    limits = {"stalled_request_seconds": STALLED_SECONDS}
    directory = tmp_path_factory.mktemp("hostile")
    chroot = f"{zookeeper.address}/hostile"
    with BrokerProcess(directory, zookeeper=chroot, settings={"limits": limits}) as broker:
        create(broker.bootstrap, "bystander")
        create(broker.bootstrap, "many", partitions=200)
        create(broker.bootstrap, "large")
        batch = record_batch([bytes(1_000_000)])
        with RawConnection(broker.bootstrap) as connection:
            for _ in range(LARGE_RECORDS):
                answer = connection.ask(PRODUCE, 7, produce_body("large", 0, batch))
                assert read_produced(answer).error == 0
        yield broker


@pytest.fixture
def broker(running: BrokerProcess) -> Iterator[BrokerProcess]:
    """Whatever a test does, others are served, and no bug shows."""
    bystander = Bystander(running.bootstrap, "bystander")
    try:
        yield running
    finally:
        bystander.finish()
    assert running.process.alive, running.process.last_words()
    assert "Traceback" not in running.log(), running.process.last_words()


class Growth:
    """The most by which a process has grown while this watched, some times a second."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.most = 0
        self._broker = broker
        self._before = broker.rss()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, self._broker.rss() - self._before)

    def __enter__(self) -> "Growth":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        print(f"grown by {self.most / MIB:.0f} MiB at most")


@contextlib.contextmanager
def connections(broker: BrokerProcess, count: int) -> Iterator[list[RawConnection]]:
    """So many at once; the limit of open files is raised for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 500
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawConnection(broker.bootstrap)) for _ in range(count)]


def push(connection: RawConnection, data: memoryview, seconds: float) -> int:
    """Writes what the broker takes within a time; how much that was."""
    connection.socket.setblocking(False)
    deadline = time.monotonic() + seconds
    sent = 0
    while sent < len(data) and time.monotonic() < deadline:
        _, writable, _ = select.select([], [connection.socket], [], 0.05)
        if writable:
            try:
                sent += connection.socket.send(data[sent : sent + MIB])
            except BlockingIOError:
                continue
            except ConnectionError:
                break  # The broker hung up.
    return sent


@contextlib.contextmanager
def pushing(
    connections: list[RawConnection], data: bytes | memoryview, seconds: float
) -> Iterator[None]:
    """Each of them writes what the broker takes of it within a time."""
    threads = [
        threading.Thread(target=push, args=(connection, memoryview(data), seconds))
        for connection in connections
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def test_two_thousand_connections(broker: BrokerProcess) -> None:
    files = broker.process.open_files()
    with Growth(broker) as growth, connections(broker, 2000) as all_of_them:
        for connection in all_of_them:
            connection.send(request(API_VERSIONS, 0, b""))
        for connection in all_of_them:
            assert struct.unpack_from(">h", connection.answer())[0] == 0
    # 10,000 idle connections may cost 300 MB.
    assert growth.most < 60 * MIB
    wait_until(lambda: broker.process.open_files() <= files + 20, what="all are let go of")


def test_many_that_announce_much_and_say_little(broker: BrokerProcess) -> None:
    with Growth(broker) as growth, connections(broker, 300) as all_of_them:
        for connection in all_of_them:
            connection.send(int32(20 * MIB) + bytes(10_000))
        # Announcing costs nothing, so it must not take anything from those who send.
        write_a_large_record(broker, within=5)
    assert growth.most < SLACK


def test_half_sent_requests_bound_the_broker_and_hinder_nobody(broker: BrokerProcess) -> None:
    """1.5 GB are begun from the address that others work from, too."""
    alone = served_for(broker, 3.0)
    most_of_it = memoryview(int32(30 * MIB) + bytes(25 * MIB))
    complaints = broker.complaints("connection closed")
    with connections(broker, 60) as all_of_them:
        with pushing(all_of_them, most_of_it, 8.0):
            meanwhile = served_for(broker, 5.0)
            write_a_large_record(broker, within=5)
        # Those that others waited for, and those that waited too long, are told to go. The few that
        # are left are in nobody's way, and have as long as they would at 256 KB a second.
        wait_until(
            lambda: broker.complaints("connection closed") >= complaints + 40,
            within=20,
            what="most of them are closed",
        )
    assert meanwhile.p99 < max(2 * alone.p99, 1.0) + meanwhile.disk_wait
    assert broker.process.most_rss() < 200_000_000


def served_for(broker: BrokerProcess, seconds: float) -> Served:
    bystander = Bystander(broker.bootstrap, "bystander")
    time.sleep(seconds)
    return bystander.finish()


def write_a_large_record(broker: BrokerProcess, *, within: float) -> None:
    with RawConnection(broker.bootstrap) as connection:
        body = produce_body("bystander", 0, record_batch([bytes(900_000)]))
        assert read_produced(connection.ask(PRODUCE, 7, body, within)).error == 0


def test_a_slow_writer_is_served_when_it_is_done(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as connection:
        for byte in request(API_VERSIONS, 0, b""):
            connection.send(bytes([byte]))
            time.sleep(0.05)  # The slowness is the test.
        assert struct.unpack_from(">h", connection.answer())[0] == 0


def test_half_a_request_and_silence_is_closed_with_one_complaint(broker: BrokerProcess) -> None:
    whole = request(METADATA, 1, metadata_body(["bystander"]))

    before = broker.complaints("connection closed")
    with RawConnection(broker.bootstrap) as connection:
        connection.send(whole[:10])
        began = time.monotonic()
        connection.wait_closed(within=STALLED_SECONDS + 10)
        assert time.monotonic() - began > STALLED_SECONDS - 0.5
    assert broker.complaints("connection closed") == before + 1


def test_readers_that_ask_for_much_and_read_nothing(broker: BrokerProcess) -> None:
    """Each asks for all there is, a hundred times: 120 GB if it were all prepared."""
    body = fetch_body("large", 0, 0, max_bytes=100 * MIB, wait_ms=0)
    asked = b"".join(request(FETCH, 4, body, correlation=each) for each in range(100))
    with Growth(broker) as growth, contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(RawConnection(broker.bootstrap, receive_buffer=8192))
            for _ in range(20)
        ]
        for reader in readers:
            push(reader, memoryview(asked), 1.0)
        time.sleep(2)  # A while in which nothing is read.
        assert growth.most < SLACK
        # One of them comes to its senses: what it asked for first is there, whole.
        fetched = read_fetched(readers[0].answer(within=60))
        assert fetched.error == 0
        assert len(fetched.records) > LARGE_RECORDS * 1_000_000


def test_what_is_not_read_is_not_held_by_the_kernel_instead(broker: BrokerProcess) -> None:
    """Who has read much and then stops has shown the kernel how much is worth sending ahead."""
    asked = request(FETCH, 4, fetch_body("large", 0, 0, max_bytes=100 * MIB, wait_ms=0))
    with RawConnection(broker.bootstrap) as reader:
        reader.send(asked)
        read = read_on(reader, 30 * MIB)
        time.sleep(1)  # A while in which nothing is read.
        assert 0 < max(send_queues(broker.port)) < MIB
        read_on(reader, LARGE_RECORDS * 1_000_000 - read)


def read_on(connection: RawConnection, least: int) -> int:
    """At least so many bytes; how many it were."""
    read = 0
    while read < least:
        read += len(some(connection))
    return read


def send_queues(port: int) -> list[int]:
    """Bytes that the kernel holds for those who are connected there: see proc_net_tcp."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[4][:8], 16) for row in rows if row[1].endswith(f":{port:04X}")]


def test_ten_thousand_requests_before_the_first_answer_is_read(broker: BrokerProcess) -> None:
    """Each answer is some kilobytes long; all come, in order, once they are read."""
    count = 10_000
    body = metadata_body(["many"])
    everything = b"".join(request(METADATA, 1, body, correlation=each) for each in range(count))
    with (
        Growth(broker) as growth,
        RawConnection(broker.bootstrap) as connection,
        # From another thread: the broker stops taking requests while their answers wait.
        pushing([connection], everything, 60.0),
    ):
        time.sleep(2)  # A while in which nothing is read.
        received, found = bytearray(), list[int]()
        while len(found) < count:
            received += some(connection)
            at = 0
            while len(received) - at >= 8:
                length, correlation = struct.unpack_from(">ii", received, at)
                if len(received) - at - 4 < length:
                    break
                found.append(correlation)
                at += 4 + length
            del received[:at]
    assert found == list(range(count))
    assert growth.most < SLACK


def some(connection: RawConnection) -> bytes:
    readable, _, _ = select.select([connection.socket], [], [], 15)
    assert readable, "no answer within 15 s"
    piece = connection.socket.recv(MIB)
    assert piece, "the connection was closed"
    return piece


def test_thousands_that_come_and_go(broker: BrokerProcess) -> None:
    files = broker.process.open_files()
    with Growth(broker) as growth:
        for number in range(3000):
            with RawConnection(broker.bootstrap) as connection:
                if number % 3 == 0:
                    connection.ask(API_VERSIONS, 0, b"")
                elif number % 3 == 1:
                    connection.send(request(API_VERSIONS, 0, b""))
                    # A reset instead of an orderly end.
                    reset = struct.pack("ii", 1, 0)
                    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    assert growth.most < 40 * MIB
    wait_until(lambda: broker.process.open_files() <= files + 20, what="all are let go of")


def test_readers_that_leave_in_the_middle_of_an_answer(broker: BrokerProcess) -> None:
    files = broker.process.open_files()
    asked = request(FETCH, 4, fetch_body("large", 0, 0, max_bytes=100 * MIB, wait_ms=0))
    for _ in range(50):
        with RawConnection(broker.bootstrap, receive_buffer=8192) as connection:
            connection.send(asked)
            with contextlib.suppress(Closed):
                connection.socket.recv(1000)
    wait_until(lambda: broker.process.open_files() <= files + 20, what="all are let go of")
