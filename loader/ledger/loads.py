"""When the ledger is told that a table's loads fail, and that they do so no longer. Pure.

That they fail is said when it begins, when the reason changes, and about every hour as long as it
lasts. What was said is kept in a small file beside the commit log:

    {root}/_penstock/~loads/{table}.json

so that loads that are processes of their own know since when. It is written after the ledger was
told: whoever dies in between says it again, which changes nothing. A file that is lost is another
beginning.

That a table is loaded is said at the end of each load. No file tells whether it has to be: who
could not write to the root has left none, and a topic may be another table's by now.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from loader.store.store import PENSTOCK

VERSION: Final = 1
AGAIN_MILLIS: Final = 50 * 60_000  # so that loads on the hour say it each time
LONGEST: Final = 2_000  # letters of a reason
MOST_BYTES: Final = 256 * 1024  # of an entry, about
_TRIED: Final = 12  # bytes that a statement takes beside its texts

Json = dict[str, Any]


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose loads fail, as the ledger knows it."""

    version: int = VERSION
    since: int  # when the first of these loads was begun, milliseconds
    told: int  # when it was said last
    reason: str


def state_path(table: str) -> str:
    """No table's name begins with `~`."""
    return f"{PENSTOCK}/~loads/{table}.json"


def from_bytes(data: bytes) -> Failing | None:
    """None if it is damaged, or of another version."""
    try:
        found = msgspec.json.decode(data, type=Failing)
    except msgspec.DecodeError:
        return None
    return found if found.version == VERSION else None


def failing(before: Failing | None, reason: str, began: int, now: int) -> tuple[Failing, bool]:
    """A load has failed: what is known then, and whether that is to be said."""
    reason = reason[:LONGEST]
    if before is None:
        return Failing(since=began, told=now, reason=reason), True
    if before.reason == reason and 0 <= now - before.told < AGAIN_MILLIS:
        return before, False
    return Failing(since=before.since, told=now, reason=reason), True


def statements(topics: Iterable[str], known: Failing, cure: str) -> list[Json]:
    """Of each topic of the table, that it fails."""
    return [
        {
            "topic": topic,
            "failed": True,
            "since": known.since,
            "reason": known.reason,
            "cure": cure[:LONGEST],
        }
        for topic in topics
    ]


def recovered(topics: Iterable[str], began: int) -> list[Json]:
    """Of each topic of the table, that a load has succeeded again."""
    return [{"topic": topic, "failed": False, "since": began} for topic in topics]


def divided(said: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """What goes together into an entry."""
    part: list[Mapping[str, Any]] = []
    weight = 0
    for each in said:
        texts = (each["topic"], each.get("reason", ""), each.get("cure", ""))
        more = _TRIED + sum(len(text.encode()) for text in texts)
        if part and weight + more > MOST_BYTES:
            yield part
            part, weight = [], 0
        part.append(each)
        weight += more
    if part:
        yield part
