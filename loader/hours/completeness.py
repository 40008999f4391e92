"""Whether all rows of an hour have been loaded: the one question, and what may be answered.

The audit answers, where there is one (audit_gate.py); elsewhere it is watermarks.py, from what
agents say in `_audit`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from loader.manifests import TopicState
from loader.tables import Hour

MOST_NAMES: Final = 1_000  # that a marker has


@dataclass(frozen=True, slots=True)
class Complete:
    """Nothing more will come that anybody knows of."""

    by: str  # how that was decided, in words


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something may still come."""

    missing: str  # in words; the same as long as the same is waited for
    names: tuple[str, ...] = ()  # the hosts, as many as are worth naming


Verdict = Complete | Waiting


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of all that feed a table."""
    waiting, by = [], []
    for each in verdicts:
        if isinstance(each, Waiting):
            waiting.append(each)
        else:
            by.append(each.by)
    if not waiting:
        return Complete("; ".join(dict.fromkeys(by)))
    missing = "; ".join(dict.fromkeys(each.missing for each in waiting))
    names = dict.fromkeys(name for each in waiting for name in each.names)
    return Waiting(missing, tuple(names)[:MOST_NAMES])


class Completeness(Protocol):
    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool
    ) -> Verdict | None:
        """The hour of a table that these topics feed, all of them, loaded up to where their states
        say; None: nothing of it was ever read. Rows with Penstock's header are events: agents write
        them. No verdict: the hour is left as it is, for the next load."""
