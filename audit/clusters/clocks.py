"""Hosts whose clock is wrong, told by the newest entry of each journal.

An entry that has just come was written just now. If it has another time, its host's clock is wrong,
or it had to wait for the brokers, and then the next one is right. Kept in memory alone: the next
entry says it again. One thread.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:  # commands know of alerts, and need no pyarrow
    import pyarrow as pa

MOST_MILLIS: Final = 120_000  # that a clock may be off
_FORGOTTEN_MILLIS: Final = 600_000  # after the last entry of a journal
_MOST_JOURNALS: Final = 10_000

ClusterHost = tuple[str, str]


class _Off(msgspec.Struct, frozen=True):
    host: str
    ahead: int  # milliseconds; below zero: behind
    came: int


class Clocks:
    """What the newest entries say."""

    def __init__(self) -> None:
        self._off: dict[tuple[str, str], _Off] = {}  # by cluster and journal
        self._heard: set[ClusterHost] = set()
        self._began = 0

    def note(self, cluster: str, body: "pa.StructArray", now: int) -> None:
        """Entries that have just come."""
        header = body.field("header")
        columns = (header.field(name).to_pylist() for name in ("source", "host", "time"))
        for journal, host, time in zip(*columns, strict=True):
            self._off.pop((cluster, journal), None)
            if len(self._heard) < _MOST_JOURNALS:
                self._heard.add((cluster, host))
            if abs(time - now) > MOST_MILLIS and len(self._off) < _MOST_JOURNALS:
                self._off[cluster, journal] = _Off(host, time - now, now)

    def wrong(self, now: int) -> Mapping[ClusterHost, int]:
        """How far ahead each of these hosts is, in milliseconds."""
        self._began = self._began or now
        kept = {key: off for key, off in self._off.items() if now - off.came < _FORGOTTEN_MILLIS}
        self._off = kept
        return {(cluster, off.host): off.ahead for (cluster, _), off in kept.items()}

    def is_unknown(self, host: ClusterHost, now: int) -> bool:
        """Whether nothing has come from it since the start, which was not long ago."""
        return host not in self._heard and now - self._began < _FORGOTTEN_MILLIS
