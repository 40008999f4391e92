"""Requests one broker's metadata with hand-made bytes: Metadata, version 7.

It uses none of Penstock's code, so that no error in it can hide a wrong response.
"""

import socket
import struct
from typing import Final

import msgspec

NOBODY: Final = -1
_METADATA: Final = 3
_VERSION: Final = 7


class ReportedPartition(msgspec.Struct, frozen=True):
    error: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether the partition has a leader, and all its replicas are in sync."""
        return (
            self.error == 0
            and self.leader != NOBODY
            and bool(self.replicas)
            and sorted(self.in_sync) == sorted(self.replicas)
        )


class ReportedCluster(msgspec.Struct, frozen=True):
    brokers: tuple[int, ...]  # the live ones
    controller: int
    partitions: dict[int, ReportedPartition]  # of the topic; empty if it is unknown


class _Answer:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def string(self) -> str:
        length = max(0, self.number("h"))
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.number("i")))


def ask_metadata(bootstrap: str, topic: str, *, within: float = 5) -> dict[int, ReportedPartition]:
    """Returns the topic's partitions; none if the topic is unknown. Raises OSError if the broker
    does not answer."""
    return ask_cluster(bootstrap, topic, within=within).partitions


def ask_cluster(bootstrap: str, topic: str, *, within: float = 5) -> ReportedCluster:
    """Returns the cluster's metadata. Raises OSError if the broker does not answer."""
    host, port = bootstrap.rsplit(":", 1)
    name = topic.encode()
    body = struct.pack(">ih", 1, len(name)) + name + b"\0"
    head = struct.pack(">hhih", _METADATA, _VERSION, 1, 3) + b"ask"
    with socket.create_connection((host, int(port)), timeout=within) as connection:
        connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (length,) = struct.unpack(">i", _take(connection, 4))
        answer = _Answer(_take(connection, length))
    answer.number("i")  # correlation id
    answer.number("i")  # throttle time
    brokers = []
    for _ in range(answer.number("i")):
        brokers.append(answer.number("i"))
        answer.string(), answer.number("i"), answer.string()
    answer.string()  # cluster id
    controller = answer.number("i")
    partitions: dict[int, ReportedPartition] = {}
    for _ in range(answer.number("i")):
        answer.number("h"), answer.string(), answer.number("b")
        for _ in range(answer.number("i")):
            error, partition, leader, epoch = (answer.number(form) for form in "hiii")
            replicas, in_sync, _offline_replicas = (answer.numbers() for _ in range(3))
            partitions[partition] = ReportedPartition(
                error, partition, leader, epoch, replicas, in_sync
            )
    return ReportedCluster(tuple(brokers), controller, partitions)


def _take(connection: socket.socket, count: int) -> bytes:
    buffer = bytearray()
    while len(buffer) < count:
        piece = connection.recv(count - len(buffer))
        if not piece:
            raise ConnectionError(f"closed after {len(buffer)} of {count} bytes")
        buffer += piece
    return bytes(buffer)
