"""One day of a table: what lies in the log before a first load, and what has come until a second.

The second has everything to do at once: new rows in an hour that is complete, and in others; an
event that is in the log twice, within one partition, in two of them, and since the first load;
records that cannot be decoded; a batch that reaches over the edge of a slice; hours to be merged.
"""

from typing import Final

from loader.store.store import Store
from loader.tables import HOUR_MILLIS
from tests.loader.commit.small_loader import Event, Log, SmallLoader

BEGIN: Final = 1_795_132_800_000  # 2026-11-20, midnight
FIRST_LOAD: Final = BEGIN + HOUR_MILLIS + 600_000
SECOND_LOAD: Final = BEGIN + 3 * HOUR_MILLIS + 600_000


def first_log() -> Log:
    log = Log()
    log.append(0, _events("a", 0, 3, BEGIN), _events("a", 3, 2, BEGIN + HOUR_MILLIS))
    log.append(1, _events("b", 0, 6, BEGIN + 5_000))
    return log


def whole_log() -> Log:
    log = first_log()
    late = _events("c", 0, 2, BEGIN + 1_000)
    log.append(0, _events("a", 3, 2, BEGIN + HOUR_MILLIS), late)
    log.append(0, _events("a", 5, 3, BEGIN + 2 * HOUR_MILLIS), [_dead(BEGIN + 7_000)])
    log.append(1, _events("b", 6, 5, BEGIN + HOUR_MILLIS), _events("c", 1, 2, BEGIN + 1_500))
    log.append(1, _events("b", 11, 2, BEGIN + 3 * HOUR_MILLIS))
    log.append(2, _events("d", 0, 1, BEGIN + 2 * HOUR_MILLIS))
    return log


def after_first_load(store: Store) -> None:
    SmallLoader(store, first_log(), token="first", now=FIRST_LOAD).load()


def second_load(store: Store, token: str) -> SmallLoader:
    return SmallLoader(store, whole_log(), token=token, now=SECOND_LOAD)


def small_log() -> Log:
    """As little as has one of everything that a commit does: a file, and a merge of two."""
    log = first_log()
    log.append(1, _events("b", 6, 1, BEGIN + HOUR_MILLIS))
    return log


def small_load(store: Store, token: str) -> SmallLoader:
    return SmallLoader(store, small_log(), token=token, now=SECOND_LOAD)


def _events(source: str, first: int, count: int, time: int) -> list[Event]:
    """The hour of an event follows from its source and number, wherever it lies."""
    return [Event(source, seq, time) for seq in range(first, first + count)]


def _dead(time: int) -> Event:
    return Event("", 0, time)
