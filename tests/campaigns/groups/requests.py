"""What members of a group say to its coordinator, by hand: nothing of Penstock's code takes part,
so that they can also lie. Only versions without compact encodings."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tests.system.raw import RawConnection, int16, int32, int64, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
WITHIN: Final = 3.0

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING = 22, 25, 27
MEMBER_ID_REQUIRED = 79
ELSEWHERE: Final = frozenset({LOADING, NOT_AVAILABLE, NOT_COORDINATOR})
REFUSED: Final = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING})


class _Answer:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def text(self) -> str:
        return self._take(max(0, self.number("h"))).decode()

    def data(self) -> bytes:
        return self._take(max(0, self.number("i")))

    def many(self) -> range:
        return range(self.number("i"))

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


class Joined(msgspec.Struct, frozen=True):
    code: int
    generation: int
    leader: str
    member_id: str
    members: tuple[str, ...]


def _bytes(data: bytes) -> bytes:
    return int32(len(data)) + data


def _array(items: Sequence[bytes]) -> bytes:
    return int32(len(items)) + b"".join(items)


def find_coordinator(connection: RawConnection, group: str) -> str | None:
    """Its address; None if nobody knows. Version 1."""
    asked = string(group) + b"\0"
    answer = _Answer(connection.ask(FIND_COORDINATOR, 1, asked, WITHIN))
    answer.number("i")
    if answer.number("h"):
        return None
    answer.text()
    answer.number("i")
    return f"{answer.text()}:{answer.number('i')}"


def join(
    connection: RawConnection,
    group: str,
    member_id: str,
    topic: str,
    *,
    session_ms: int,
    rebalance_ms: int,
) -> Joined:
    """Version 4. It takes as long as others take to join."""
    subscription = int16(0) + _array([string(topic)]) + int32(-1)
    protocols = _array([string("range") + _bytes(subscription)])
    times = int32(session_ms) + int32(rebalance_ms)
    asked = string(group) + times + string(member_id) + string("consumer") + protocols
    within = rebalance_ms / 1000 + WITHIN
    answer = _Answer(connection.ask(JOIN_GROUP, 4, asked, within))
    answer.number("i")
    code, generation = answer.number("h"), answer.number("i")
    answer.text()
    leader, given = answer.text(), answer.text()
    members = []
    for _ in answer.many():
        members.append(answer.text())
        answer.data()
    return Joined(code, generation, leader, given, tuple(members))


def sync(
    connection: RawConnection,
    group: str,
    generation: int,
    member_id: str,
    *,
    topic: str,
    shares: Mapping[str, Sequence[int]],
    within: float,
) -> tuple[int, tuple[int, ...]]:
    """Version 1; the code, and this member's share."""
    given = [string(each) + _bytes(_assignment(topic, share)) for each, share in shares.items()]
    asked = string(group) + int32(generation) + string(member_id) + _array(given)
    answer = _Answer(connection.ask(SYNC_GROUP, 1, asked, within))
    answer.number("i")
    return answer.number("h"), _share(answer.data())


def _assignment(topic: str, partitions: Sequence[int]) -> bytes:
    return int16(0) + _array([string(topic) + _array([*map(int32, partitions)])]) + int32(-1)


def _share(assignment: bytes) -> tuple[int, ...]:
    if not assignment:
        return ()
    answer = _Answer(assignment)
    answer.number("h")
    found: list[int] = []
    for _ in answer.many():
        answer.text()
        found += [answer.number("i") for _ in answer.many()]
    return tuple(found)


def heartbeat(connection: RawConnection, group: str, generation: int, member_id: str) -> int:
    asked = string(group) + int32(generation) + string(member_id)
    answer = _Answer(connection.ask(HEARTBEAT, 1, asked, WITHIN))
    answer.number("i")
    return answer.number("h")


def leave(connection: RawConnection, group: str, member_id: str) -> int:
    answer = _Answer(connection.ask(LEAVE_GROUP, 1, string(group) + string(member_id), WITHIN))
    answer.number("i")
    return answer.number("h")


def commit(
    connection: RawConnection,
    group: str,
    generation: int,
    member_id: str,
    *,
    topic: str,
    offsets: Mapping[int, int],
) -> int:
    """Version 2; what was answered to the worst of them."""
    partitions = [int32(each) + int64(offset) + string("") for each, offset in offsets.items()]
    asked = string(group) + int32(generation) + string(member_id) + int64(-1)
    asked += _array([string(topic) + _array(partitions)])
    answer = _Answer(connection.ask(OFFSET_COMMIT, 2, asked, WITHIN))
    codes = [0]
    for _ in answer.many():
        answer.text()
        for _ in answer.many():
            answer.number("i")
            codes.append(answer.number("h"))
    return max(codes)


def fetch(
    connection: RawConnection, group: str, topic: str, partitions: Iterable[int]
) -> tuple[int, dict[int, int]]:
    """Version 2; the code, and what is committed."""
    asked = string(group) + _array([string(topic) + _array([*map(int32, partitions)])])
    answer = _Answer(connection.ask(OFFSET_FETCH, 2, asked, WITHIN))
    codes, found = [0], {}
    for _ in answer.many():
        answer.text()
        for _ in answer.many():
            partition = answer.number("i")
            found[partition] = answer.number("q")
            answer.text()
            codes.append(answer.number("h"))
    codes.append(answer.number("h"))
    return max(codes), found
