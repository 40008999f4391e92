"""What writers and readers of a cluster note, beside what all campaigns do.

Records are known by their content: writer and number ("all-1/0 17") if it is as that writer made
it, something else if not. So a history can be judged by comparing words.
"""

import msgspec

from tests.campaigns.history import Done, Trouble


class Began(msgspec.Struct, frozen=True, tag=True):
    """A writer to one partition, and what it is promised."""

    writer: str
    partition: int
    acks: int  # -1: all
    idempotent: bool
    at: float = 0.0


class Sent(msgspec.Struct, frozen=True, tag=True):
    """Before the first attempt."""

    writer: str
    number: int
    at: float = 0.0


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    writer: str
    number: int
    offset: int  # -1: not told
    broker: int  # who did; 0: not known
    at: float = 0.0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A writer's record was given up, by itself or for ever. Nobody knows what became of it."""

    writer: str
    number: int
    why: str
    at: float = 0.0


class Read(msgspec.Struct, frozen=True, tag=True):
    reader: str
    partition: int
    offset: int
    content: str
    at: float = 0.0


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A reader was told that it cannot go on where it is."""

    reader: str
    partition: int
    why: str
    at: float = 0.0


class Mapped(msgspec.Struct, frozen=True, tag=True):
    """What ZooKeeper said of a partition; each change that was seen."""

    partition: int
    leader: int  # -1: none
    epoch: int
    in_sync: tuple[int, ...]
    version: int
    at: float = 0.0


class Stands(msgspec.Struct, frozen=True, tag=True):
    """What a consumer that knows nothing of before reads when all has come to rest."""

    partition: int
    offset: int
    content: str
    at: float = 0.0


Event = Began | Sent | Acknowledged | Failed | Read | Refused | Mapped | Stands | Done | Trouble
