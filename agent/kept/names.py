"""What kept descriptors are called, so that the next process knows what each of them is. Pure.

    {journal}.file.{device}-{inode}                 a file whose source the journal knows
    {journal}.new.{device}-{inode}.{path, quoted}   one of which it was not clear yet what it is
    {journal}.events                                the queue of inotify
    {journal}.events-unsaid                         whether it has lost what nobody has said

`journal` is the agent's id: what was kept for another data directory is nobody's. A file has one
name however many handles there are of it. All names together stand in one variable of the next
process's environment, which the kernel lets have 128 KiB: `BUDGET` keeps within that.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from agent.runs import SourceId

BUDGET: Final = 100_000
_LONGEST: Final = 255
_JOURNAL: Final = 12  # of the agent's id: enough to tell two data directories of a host apart

Identity = tuple[int, int]
"""Device and inode."""


class Kind(StrEnum):
    """What a kept descriptor is of."""

    FILE = "file"
    NEW = "new"
    EVENTS = "events"
    UNSAID = "events-unsaid"


@dataclass(frozen=True, slots=True)
class KeptName:
    """What a name says. `path` only of what is new, and not if it is very long."""

    kind: Kind
    path: str = ""


def file_name(agent_id: str, identity: Identity, source: SourceId) -> str:
    kind = Kind.FILE if source else Kind.NEW
    return f"{agent_id[:_JOURNAL]}.{kind}.{identity[0]:x}-{identity[1]:x}"


def with_path(name: str, path: str) -> str:
    """Of what is new: as it was called when it was met."""
    longer = f"{name}.{quote_from_bytes(os.fsencode(path), safe='/')}"
    return longer if len(longer) <= _LONGEST else name


def own_name(agent_id: str, kind: Kind) -> str:
    """Of what is no file, and of which there is one."""
    return f"{agent_id[:_JOURNAL]}.{kind}"


def read_name(name: str, agent_id: str) -> KeptName | None:
    """None if it is not of this agent's journal, or of nobody's."""
    journal, _, rest = name.partition(".")
    if journal != agent_id[:_JOURNAL]:
        return None
    kind, _, rest = rest.partition(".")
    _, _, path = rest.partition(".")
    try:
        return KeptName(Kind(kind), os.fsdecode(unquote_to_bytes(path)))
    except ValueError:
        return None
