"""What those who take part in groups note, beside what all campaigns do. Each writes a file of its
own."""

from typing import Final

import msgspec

from tests.campaigns.history import Done, Trouble

UNKNOWN: Final = -1  # a generation that a client does not tell; an answer that is not one
END: Final = "end"  # who asks when all is over


class Written(msgspec.Struct, frozen=True, tag=True):
    """A record was acknowledged with acks=all. Its number is its offset."""

    partition: int
    offset: int
    at: float = 0.0


class Synced(msgspec.Struct, frozen=True, tag=True):
    """A member was told by its coordinator what is its own in a generation."""

    group: str
    member: str  # who it is here; by its process
    member_id: str  # and there
    generation: int
    partitions: tuple[int, ...]
    asked: float
    at: float = 0.0


class Saved(msgspec.Struct, frozen=True, tag=True):
    """A generation as it stands in ZooKeeper: what each member owns, by its id there."""

    group: str
    generation: int
    owners: dict[str, tuple[int, ...]]
    at: float = 0.0


class Committing(msgspec.Struct, frozen=True, tag=True):
    """Before a commit is sent."""

    group: str
    member: str
    number: int  # of this member's commits
    member_id: str
    generation: int
    offsets: dict[int, int]  # the next one to read, by partition
    at: float = 0.0


class Committed(msgspec.Struct, frozen=True, tag=True):
    """What a commit was answered: 0 if it is acknowledged, UNKNOWN if that is not known."""

    group: str
    member: str
    number: int
    code: int
    at: float = 0.0


class Fetched(msgspec.Struct, frozen=True, tag=True):
    """What somebody was told is committed; below 0 where nothing is."""

    group: str
    member: str
    offsets: dict[int, int]
    asked: float
    at: float = 0.0


class Read(msgspec.Struct, frozen=True, tag=True):
    """Some records, one after the other, within one claim. `had` is when the first of them was
    there, `asked` when the last of them was asked for: in between the partition was its own."""

    group: str
    member: str
    claim: int  # of this member's; another one after each time that the partition was not its own
    partition: int
    first: int
    last: int
    had: float
    asked: float
    at: float = 0.0


class Changed(msgspec.Struct, frozen=True, tag=True):
    """A record that was read is not what was written at its offset."""

    group: str
    member: str
    partition: int
    offset: int
    content: str
    at: float = 0.0


class Ended(msgspec.Struct, frozen=True, tag=True):
    """How far a partition was written when all was over."""

    partition: int
    end: int
    at: float = 0.0


Event = (
    Written
    | Synced
    | Saved
    | Committing
    | Committed
    | Fetched
    | Read
    | Changed
    | Ended
    | Done
    | Trouble
)
