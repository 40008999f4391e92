"""Heartbeats on their way into the ledger: one a window, topics named no more than they must be.

A time is rounded down to where its window begins, which is all that can be decided with it; so
topics that are about as far share one statement.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

NAMED_SECONDS: Final = 3600.0

Json = dict[str, Any]


class Heartbeats:
    """What was told last, and what of it was said. One thread."""

    def __init__(self, window_millis: int, program_version: str) -> None:
        self._window_millis = window_millis
        self._version = program_version
        self._until: dict[str, int] = {}
        self._lag_bytes = -1
        self._said: dict[str, int] = {}
        self._named: frozenset[str] = frozenset()
        self._named_at = -NAMED_SECONDS

    def tell(self, until: Mapping[str, int], lag_bytes: int) -> None:
        """Up to when everything of each topic is acknowledged, in milliseconds. Topics that are
        not there any more are not shipped to any more."""
        self._until = {
            topic: millis - millis % self._window_millis for topic, millis in until.items()
        }
        self._lag_bytes = lag_bytes

    @property
    def due(self) -> bool:
        """Whether there is anything that was not said."""
        return self._until != self._said

    def statements(self, now: float) -> list[Json]:
        """What is to be said now; `said` follows once the journal has it."""
        if not self._until:
            return []
        together: dict[int, list[str]] = defaultdict(list)
        for topic, millis in sorted(self._until.items()):
            together[millis].append(topic)
        names = frozenset(self._until)
        known = names == self._named and now - self._named_at < NAMED_SECONDS
        if known and len(together) == 1:
            return [{"until": next(iter(together)), "lag_bytes": self._lag_bytes}]
        return [
            {
                "until": millis,
                "topics": topics,
                "lag_bytes": self._lag_bytes,
                "program_version": self._version,
            }
            for millis, topics in sorted(together.items())
        ]

    def said(self, statements: list[Json], now: float) -> None:
        self._said = dict(self._until)
        if statements and "topics" in statements[0]:
            self._named, self._named_at = frozenset(self._until), now
