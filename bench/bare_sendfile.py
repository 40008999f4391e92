"""`python -m bench.bare_sendfile`: the kernel's cost of sending a file over loopback.

It is the lower bound for a broker's CPU time per consumed GB. The server answers each byte with a
slice of one file, by `sendfile` only; the client receives and discards. The default congestion
control is compared with one that does not pace.
"""

import argparse
import os
import select
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from bench.figures.machine import congestion_control

_MEBIBYTE: Final = 2**20
_FILE: Final = 256 * _MEBIBYTE
_SENT: Final = 2 * 2**30
_ANSWERS: Final = (_MEBIBYTE, 50 * _MEBIBYTE)


class _Measured(NamedTuple):
    mb_per_second: float
    server_cpu_s_per_gb: float
    client_cpu_s_per_gb: float


def _serve(
    listener: socket.socket, file: int, answer: int, result: "Connection[float, float]"
) -> None:
    client, _ = listener.accept()
    client.setblocking(False)
    poller = select.epoll()
    poller.register(client, select.EPOLLIN)
    position, start_time = 0, time.process_time()
    while poller.poll() and client.recv(1):
        end = position + answer
        poller.modify(client, select.EPOLLOUT)
        while position < end:
            with suppress(BlockingIOError):
                position += os.sendfile(client.fileno(), file, position, end - position)
                continue
            poller.poll()
        poller.modify(client, select.EPOLLIN)
        position = position if position + answer <= _FILE else 0
    result.send(time.process_time() - start_time)


def _measure(file: int, answer: int, congestion: str) -> _Measured:
    receiver, sender = Pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        server = Process(target=_serve, args=(listener, file, answer, sender), daemon=True)
        server.start()
        with socket.create_connection(listener.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            buffer = memoryview(bytearray(answer))
            start_time, cpu_seconds = time.perf_counter(), time.process_time()
            answers = _SENT // answer
            for _ in range(answers):
                client.send(b"?")
                received_bytes = 0
                while received_bytes < answer:
                    received_bytes += client.recv_into(buffer[received_bytes:])
            elapsed, cpu_seconds = (
                time.perf_counter() - start_time,
                time.process_time() - cpu_seconds,
            )
        gigabytes = answers * answer / 1e9
        sender_seconds: float = receiver.recv()
        server.join()
    return _Measured(
        1000 * gigabytes / elapsed, sender_seconds / gigabytes, cpu_seconds / gigabytes
    )


def _shown(samples: Sequence[float], form: str) -> str:
    minimum, median, maximum = min(samples), statistics.median(samples), max(samples)
    return f"{median:{form}} ({minimum:{form}}..{maximum:{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bare_sendfile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", default="/var/tmp")  # a disk, not memory
    options = parser.parse_args()
    controls = sorted({congestion_control(), "reno"})
    cases = [(answer, congestion) for answer in _ANSWERS for congestion in controls]
    measurements_by_case: dict[tuple[int, str], list[_Measured]] = {case: [] for case in cases}
    with tempfile.TemporaryFile(dir=options.directory) as file:
        for _ in range(_FILE // _MEBIBYTE):
            file.write(bytes(_MEBIBYTE))
        file.flush()
        for _ in range(options.rounds):
            for case, measurements in measurements_by_case.items():
                measurements.append(_measure(file.fileno(), *case))
    print("| answers of | congestion control | MB/s | server, CPU-s/GB | client, CPU-s/GB |")
    print("| --- | --- | --- | --- | --- |")
    for (answer, congestion), measurements in measurements_by_case.items():
        rate, server, client = zip(*measurements, strict=True)
        columns = f"{_shown(rate, ',.0f')} | {_shown(server, '.2f')} | {_shown(client, '.2f')}"
        print(f"| {answer // _MEBIBYTE} MB | {congestion} | {columns} |")


if __name__ == "__main__":
    main()
