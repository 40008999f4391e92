"""Finds hosts with wrong clocks, from the newest entry of each journal.

An entry that has just arrived was written just now. If its time differs, its host's clock is wrong,
or it had to wait for the brokers, and then the next one is right. Kept in memory only, as the next
entry shows it again. One thread, except for `error`.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:  # commands import the alerts, and must work without pyarrow
    import pyarrow as pa

MOST_MILLIS: Final = 120_000  # the tolerated error of a clock
CLEARED_MILLIS: Final = 96_000  # and of one that has an alert, until it is right again
_FORGOTTEN_MILLIS: Final = 600_000  # after the last entry of a journal
_MOST_JOURNALS: Final = 10_000

ClusterHost = tuple[str, str]


class ClockError(msgspec.Struct, frozen=True):
    """The error of a host's clock, from an entry that came at `came`."""

    host: str
    ahead: int  # milliseconds; below zero: behind
    came: int


class Clocks:
    """The clock errors of hosts, from the newest entries."""

    def __init__(self) -> None:
        self._off: dict[tuple[str, str], ClockError] = {}  # by cluster and journal
        self._heard: set[ClusterHost] = set()
        self._began = 0

    def note(self, cluster: str, body: "pa.StructArray", now: int) -> None:
        """Notes the times in newly read entries."""
        header = body.field("header")
        columns = (header.field(name).to_pylist() for name in ("source", "host", "time"))
        for journal, host, time in zip(*columns, strict=True):
            self._off.pop((cluster, journal), None)
            if len(self._heard) < _MOST_JOURNALS:
                self._heard.add((cluster, host))
            if abs(time - now) > CLEARED_MILLIS and len(self._off) < _MOST_JOURNALS:
                self._off[cluster, journal] = ClockError(host, time - now, now)

    def wrong(self, now: int, raised: Collection[ClusterHost] = ()) -> Mapping[ClusterHost, int]:
        """Returns, for each host with a wrong clock, by how many milliseconds the clock is ahead.
        `raised` has the hosts whose clocks were wrong before."""
        self._began = self._began or now
        errors = {
            key: error for key, error in self._off.items() if now - error.came < _FORGOTTEN_MILLIS
        }
        self._off = errors
        return {
            (cluster, error.host): error.ahead
            for (cluster, _), error in errors.items()
            if abs(error.ahead) > MOST_MILLIS or (cluster, error.host) in raised
        }

    def error(self, cluster: str, journal: str) -> ClockError | None:
        """The error of the clock of a journal's host; None if it is small. Any thread."""
        return self._off.get((cluster, journal))

    def is_unknown(self, host: ClusterHost, now: int) -> bool:
        """Whether the audit started recently and has received no entry from the host since."""
        return host not in self._heard and now - self._began < _FORGOTTEN_MILLIS
