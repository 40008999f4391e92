"""A broker that supports only older versions of some APIs: a proxy in front of a real one.

It changes the served versions and the broker's address in answers.
"""

import socket
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO, Self

from msgspec.structs import replace

from client.connection.addresses import parse_addresses
from tests.client.scripted_broker import frame
from wire.framing.codec import Api
from wire.framing.requests import has_tagged_header, read_header, read_response
from wire.messages import api_versions, metadata

_SIZE = 4


class OlderBroker:
    """`most` is the highest version of each API that differs from the real broker's."""

    def __init__(self, bootstrap: str, most: Mapping[Api[Any, Any], int]) -> None:
        [self._behind] = parse_addresses(bootstrap)
        self._most = {api.key: version for api, version in most.items()}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        """Call after all clients are closed."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        """Serve requests one at a time."""
        with (
            client,
            socket.create_connection(self._behind) as server,
            client.makefile("rb") as requests,
            server.makefile("rb") as answers,
        ):
            while request := _frame(requests):
                server.sendall(request)
                client.sendall(self._changed(memoryview(request)[_SIZE:], _frame(answers)))

    def _changed(self, request: memoryview, answer: bytes) -> bytes:
        header = read_header(request)
        if header.api_key == api_versions.API.key:
            api: Api[Any, Any] = api_versions.API
        elif header.api_key == metadata.API.key:
            api = metadata.API
        else:
            return answer
        version = header.api_version
        tagged = has_tagged_header(api, version)
        number, body = read_response(memoryview(answer)[_SIZE:], tagged_header=tagged)
        said = api.decode_response(version, body)
        if api is api_versions.API:
            keys = tuple(
                replace(
                    each, max_version=min(each.max_version, self._most.get(each.api_key, 1 << 15))
                )
                for each in said.api_keys
            )
            said = replace(said, api_keys=keys)
        else:
            brokers = tuple(replace(each, port=self._port) for each in said.brokers)
            said = replace(said, brokers=brokers)
        return frame(number, bytes(api.encode_response(version, said)), tagged=tagged)


def _frame(stream: BinaryIO) -> bytes:
    """The next frame; empty at the end of the stream."""
    prefix = stream.read(_SIZE)
    return prefix + stream.read(int.from_bytes(prefix, "big")) if prefix else b""
