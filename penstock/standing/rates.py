"""How fast topics grow, told from one `Standing` after another. Pure: time is theirs."""

from collections import deque
from typing import Final

from penstock.standing.values import Standing

_OVER_MILLIS: Final = 5_000  # long enough to be calm, short enough to see a change

_MOST: Final = 2**63 - 1  # whoever answers may say any number


class Rates:
    """Messages a second by topic, over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, dict[str, int]]] = deque()

    def add(self, standing: Standing) -> None:
        """The same one again changes nothing."""
        if self._seen and standing.now == self._seen[-1][0]:
            return
        if self._seen and standing.now < self._seen[-1][0]:
            self._seen.clear()  # the clock was set back: what was seen is of no use
        ends = {each.topic: min(each.end, _MOST) for each in standing.topics if each.end >= 0}
        self._seen.append((standing.now, ends))
        while len(self._seen) > 2 and self._seen[1][0] <= standing.now - _OVER_MILLIS:
            self._seen.popleft()

    def of(self, topic: str) -> float:
        """-1 while it is not known: it was not seen twice, or was made anew."""
        ends = [(now, seen[topic]) for now, seen in self._seen if topic in seen]
        if len(ends) < 2 or ends[-1][0] != self._seen[-1][0]:
            return -1.0
        (since, first), (now, last) = ends[0], ends[-1]
        return (last - first) * 1000 / (now - since) if last >= first else -1.0
