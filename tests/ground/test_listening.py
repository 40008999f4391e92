"""Who has a port, as the kernel tells."""

import os
import socket
import threading

from ground.listening import who_listens


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
