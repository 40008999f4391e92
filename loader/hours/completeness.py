"""Whether all rows of an hour have been loaded: the one question, and what may be answered.

Who answers may change: today it is watermarks.py, from what agents say in `_audit`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from loader.manifests import TopicState
from loader.tables import Hour


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


class Completeness(Protocol):
    def judge(
        self, topics: Mapping[str, TopicState | None], hour: Hour, *, events: bool
    ) -> Verdict:
        """The hour of a table that these topics feed, all of them, loaded up to where their states
        say; None: nothing of it was ever read. Rows with Penstock's header are events: agents write
        them."""
