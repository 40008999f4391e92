"""The audit's verdict on a long run, a chapter at a time: it keeps windows for a while only.

A chapter is a stretch of time. It is closed when the verdict on it waits for nobody, and what was
said then is kept. Chapters leave nothing out and do not overlap, so what they count adds up to what
was written. One that is not closed before the audit forgets it is an objection.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.cluster_pipeline.asking import AskedTopic, now
from tests.cluster_pipeline.judging import TIERS
from tests.system.crash import Worker

_EVERY: Final = 2.0
_COUNTS: Final = ("missing", "excess", "unclaimed", "pending", "findings_total", "waits_total")
_LISTS: Final = ("tiers", "findings", "waits")
Json = Mapping[str, Any]


class Chapters(Worker):
    """Closes them one after the other, while the run goes on."""

    def __init__(self, asked: AskedTopic, begin: int, length: int, kept: int) -> None:
        """All in milliseconds: when the first begins, how long each is, what the audit keeps."""
        super().__init__("chapters")
        self.begin = begin  # of the one that is open
        self.last = begin  # where the one before it began
        self.reports: list[Json] = []
        self.cells: list[Json] = []
        self.late: list[str] = []
        self._asked = asked
        self._length, self._kept = length, kept

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            end = self.begin + self._length
            if now() > end:
                self.try_to_close(end)
            if now() - self.begin > self._kept and not self.late:
                self.late.append(f"the verdict on a chapter was awaited for {self._kept // 1000} s")

    def try_to_close(self, end: int) -> None:
        report = self._asked.report(self.begin, end)
        if report.get("as_of", 0) >= end and is_closed(report):
            self._close(report, end)

    def close_last(self) -> None:
        """Up to now, whatever the verdict is. Nobody writes any more."""
        report = self._asked.settled(self.begin)
        self._close(report, now())

    def _close(self, report: Json, end: int) -> None:
        self.reports.append(report)
        self.cells += self._asked.cells(self.begin, end)
        self.last, self.begin = self.begin, end

    @property
    def report(self) -> Json:
        return added(self.reports)


def is_closed(report: Json) -> bool:
    """Nobody is waited for, and each tier has spoken: before its first load, a topic is not
    expected in files, and would be complete without them."""
    tiers = {each["tier"] for each in report["tiers"]}
    return tiers >= set(TIERS) and report["state"] != "pending" and not report["waits_total"]


def added(reports: Sequence[Json]) -> Json:
    """One report on all that these are about."""
    if not reports:
        return {}
    states = [each.get("state", "nothing") for each in reports]
    flow: Counter[str] = Counter()
    for each in reports:
        flow.update({name: count for name, count in each.get("flow", {}).items() if count})
    return {
        "state": next((each for each in states if each != "complete"), "complete"),
        **{name: sum(each.get(name, 0) for each in reports) for name in _COUNTS},
        **{name: [one for each in reports for one in each.get(name, [])] for name in _LISTS},
        "flow": {"lost": 0, **flow},
    }
