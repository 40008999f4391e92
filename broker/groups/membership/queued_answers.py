"""Queues answers to waiting clients until the group is consistent again.

Each is given once. If a callback raises, the ones behind it are called with the next answers.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from broker.groups.membership.values import (
    NO_MEMBER,
    JoinAnswer,
    JoinOutcome,
    SyncAnswer,
    SyncOutcome,
)
from wire.errors import ErrorCode

Outcome = TypeVar("Outcome", JoinOutcome, SyncOutcome)


class Answers:
    """The queued answers of one group. A client that does not wait (None) is not answered."""

    __slots__ = ("_row",)

    def __init__(self) -> None:
        self._row: deque[Callable[[], None]] = deque()

    def tell(self, answer: Callable[[Outcome], None] | None, outcome: Outcome) -> None:
        if answer is not None:
            self._row.append(partial(answer, outcome))

    def refuse_join(
        self, answer: JoinAnswer | None, code: ErrorCode, member_id: str = NO_MEMBER
    ) -> None:
        if answer is not None:
            self.tell(answer, JoinOutcome(code=code, member_id=member_id))

    def refuse_sync(self, answer: SyncAnswer | None, code: ErrorCode) -> None:
        if answer is not None:
            self.tell(answer, SyncOutcome(code=code))

    def give(self) -> None:
        """Gives all queued answers, including those added meanwhile."""
        while self._row:
            self._row.popleft()()
