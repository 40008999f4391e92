"""Which files sources are, as far as the ledger was told: when a source is first spoken of, when
twice as much or all is known of its head, and when it has another file.

Nothing of it is kept: after a restart it is said again, which changes nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from agent.files.fingerprints import FULL
from agent.ledger.passages import file_json
from agent.runs import KnownSource, SourceId

_AT_ONCE: Final = 500
_MOST: Final = 50_000

Json = dict[str, Any]


class FilesSaid:
    """One thread's, as the ledger is."""

    def __init__(self, known_source: Callable[[SourceId], KnownSource | None]) -> None:
        self._known_source = known_source
        self._said: dict[str, tuple[int, int, int]] = {}  # device, inode, bytes of the head
        self._now: dict[str, tuple[int, int, int]] = {}

    def spoken_of(
        self, entries: Iterable[Json], moved: Iterable[SourceId] = ()
    ) -> list[list[Json]]:
        """What must be said of the sources in these entries, and of those that have another file:
        nothing else may ever be said of them again. Each part is for one entry."""
        self._now = {}
        news = []
        for source, is_over in (dict.fromkeys(moved, True) | _sources_in(entries)).items():
            known = self._known_source(SourceId(source))
            if known is None:
                continue
            state = known.device, known.inode, known.fingerprint.size
            if self._is_news(self._said.get(source), state, is_over=is_over):
                self._now[source] = state
                news.append(file_json(known))
        return [news[at : at + _AT_ONCE] for at in range(0, len(news), _AT_ONCE)]

    def said(self) -> None:
        """What was asked for last is on its way."""
        for source, state in self._now.items():
            self._said.pop(source, None)
            self._said[source] = state
        while len(self._said) > _MOST:
            del self._said[next(iter(self._said))]
        self._now = {}

    def _is_news(
        self, before: tuple[int, int, int] | None, state: tuple[int, int, int], *, is_over: bool
    ) -> bool:
        if before is None or before[:2] != state[:2]:
            return True
        grown = state[2] >= 2 * max(before[2], 1) or state[2] == FULL
        return before[2] < state[2] and (is_over or grown)


def _sources_in(entries: Iterable[Json]) -> dict[str, bool]:
    """Each with whether it is over."""
    found: dict[str, bool] = {}
    for lists in entries:
        for passage in lists.get("passages", ()):
            for run in passage["runs"]:
                found.setdefault(run["source"], False)
        for each in (*lists.get("finished", ()), *lists.get("unwatched", ())):
            if each["source"]:
                found[each["source"]] = True
    return found
