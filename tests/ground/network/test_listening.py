"""Who has a port, as the kernel tells."""

import os
import socket
import subprocess
import sys
import threading

import pytest

from ground.network.listening import free_ports, is_free, reserve, server_ports, who_listens


@pytest.mark.not_quick("looks for free ports")
def test_free_ports_are_different_and_can_be_listened_on() -> None:
    ports = free_ports("127.0.0.1", 50)
    assert len(set(ports)) == 50
    # Some other program may have taken one by now.
    assert sum(is_free("127.0.0.1", port) for port in ports) >= 45


@pytest.mark.not_quick("looks for free ports")
def test_a_port_is_reserved_until_who_did_that_ends() -> None:
    """So two programs that each start a server are not given the same."""
    script = (
        "from ground.network.listening import free_ports; "
        "print(*free_ports('127.0.0.1', 1)); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert not reserve(port)
        other.communicate("\n")
    assert reserve(port)
    assert not reserve(port)


def test_servers_have_ports_that_clients_do_not_get() -> None:
    """Where the kernel leaves any; nobody needs a right for them."""
    assert server_ports(32_768) == range(10_000, 32_768)
    assert server_ports(1_024) == range(10_000, 65_536)


@pytest.mark.not_quick("it keeps the processor busy")
def test_whoever_opens_and_closes_files_meanwhile_is_found() -> None:
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]:
                os.close(descriptor)

    busy = [threading.Thread(target=open_and_close) for _ in range(3)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        for each in busy:
            each.start()
        try:
            found = {who_listens(server.getsockname()[1]) for _ in range(20)}
        finally:
            over.set()
            for each in busy:
                each.join()
    assert len(found) == 1
    assert f"process {os.getpid()} (" in str(found.pop())
