"""`python -m bench.bare_sendfile`: what the kernel alone takes to send a file within this machine.

A floor for what a broker takes of a processor for a GB that is consumed: a server that answers each
byte with a piece of one file, by `sendfile` and nothing else. What the kernel's own congestion
control costs is seen beside one that does not pace. The client receives, and looks at nothing.
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
    listener: socket.socket, file: int, answer: int, told: "Connection[float, float]"
) -> None:
    client, _ = listener.accept()
    client.setblocking(False)
    waiting = select.epoll()
    waiting.register(client, select.EPOLLIN)
    position, began = 0, time.process_time()
    while waiting.poll() and client.recv(1):
        end = position + answer
        waiting.modify(client, select.EPOLLOUT)
        while position < end:
            with suppress(BlockingIOError):
                position += os.sendfile(client.fileno(), file, position, end - position)
                continue
            waiting.poll()
        waiting.modify(client, select.EPOLLIN)
        position = position if position + answer <= _FILE else 0
    told.send(time.process_time() - began)


def _measure(file: int, answer: int, control: str) -> _Measured:
    ours, theirs = Pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        server = Process(target=_serve, args=(listener, file, answer, theirs), daemon=True)
        server.start()
        with socket.create_connection(listener.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            buffer = memoryview(bytearray(answer))
            began, worked = time.perf_counter(), time.process_time()
            answers = _SENT // answer
            for _ in range(answers):
                client.send(b"?")
                got = 0
                while got < answer:
                    got += client.recv_into(buffer[got:])
            took, worked = time.perf_counter() - began, time.process_time() - worked
        gigabytes = answers * answer / 1e9
        served: float = ours.recv()
        server.join()
    return _Measured(1000 * gigabytes / took, served / gigabytes, worked / gigabytes)


def _shown(samples: Sequence[float], form: str) -> str:
    low, middle, high = min(samples), statistics.median(samples), max(samples)
    return f"{middle:{form}} ({low:{form}}..{high:{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bare_sendfile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", default="/var/tmp")  # a disk, not memory
    arguments = parser.parse_args()
    controls = sorted({congestion_control(), "reno"})
    cases = [(answer, control) for answer in _ANSWERS for control in controls]
    found: dict[tuple[int, str], list[_Measured]] = {case: [] for case in cases}
    with tempfile.TemporaryFile(dir=arguments.directory) as file:
        for _ in range(_FILE // _MEBIBYTE):
            file.write(bytes(_MEBIBYTE))
        file.flush()
        for _ in range(arguments.rounds):
            for case, measured in found.items():
                measured.append(_measure(file.fileno(), *case))
    print("| answers of | congestion control | MB/s | server, CPU-s/GB | client, CPU-s/GB |")
    print("| --- | --- | --- | --- | --- |")
    for (answer, control), measured in found.items():
        rate, server, client = zip(*measured, strict=True)
        shown = f"{_shown(rate, ',.0f')} | {_shown(server, '.2f')} | {_shown(client, '.2f')}"
        print(f"| {answer // _MEBIBYTE} MB | {control} | {shown} |")


if __name__ == "__main__":
    main()
