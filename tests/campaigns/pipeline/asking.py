"""What the audit says of a topic, when it says it for good, and what it says meanwhile.

A chapter is a stretch of time: the audit keeps windows for a while only. It is closed when the
verdict on it waits for nobody, and what was said then is kept. Chapters leave nothing out and do
not overlap, so what they count adds up to what was written. One that is not closed before the audit
forgets it is an objection.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from tests.campaigns.command import REPOSITORY
from tests.system.crash import Worker

_VERDICT: Final = 180.0
_FAULTS: Final = frozenset({"unknown", "missing", "duplicated", "changed"})
_COUNTS: Final = ("missing", "excess", "unclaimed", "pending", "findings_total", "waits_total")
_LISTS: Final = ("tiers", "findings", "waits")
Json = Mapping[str, Any]


class AskedTopic(msgspec.Struct, frozen=True):
    """A topic of one cluster, as an audit knows it."""

    audit: AuditProcess
    cluster: str
    topic: str
    window: int  # seconds

    def report(self, since: int, until: int) -> dict[str, Any]:
        """Of it alone; {} if the audit has not heard of it, or does not answer."""
        said = self._api("report", from_=since, to=until)
        found = [each for each in said.get("topics", []) if each["topic"] == self.topic]
        return {**found[0], "as_of": said["as_of"]} if found else {}

    def cells(self, since: int, until: int) -> list[Mapping[str, Any]]:
        """A window each."""
        said = self._api("topic", from_=since, to=until, step=self.window * 1000)
        cells: list[Mapping[str, Any]] = said.get("cells", [])
        return cells

    def report_command(self, since: int) -> int:
        """The exit code of `penstock report`."""
        begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(since / 1000))
        command = ["report", self.topic, "--cluster", self.cluster, "--from", begin]
        run = subprocess.run(
            [sys.executable, "-m", "penstock", *command, "--audit", self.audit.url],
            cwd=REPOSITORY,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return run.returncode

    def settled(
        self, since: int, done: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> dict[str, Any]:
        """The verdict, once it waits for nobody (or is `done`), up to the end of the last window in
        which anything was written; or as it stands when the time is over."""
        until = (now() // (self.window * 1000) + 1) * self.window * 1000
        found: dict[str, Any] = {}

        def is_settled() -> bool:
            found.update(self.report(since, until))
            return found.get("as_of", 0) >= until and (done or _is_done)(found)

        # What it still waits for when the time is over stands in it, and is an objection.
        with suppress(TimeoutError):
            wait_until(is_settled, within=_VERDICT, what="a verdict", every=0.5)
        return found

    def _api(self, path: str, **query: object) -> dict[str, Any]:
        """An answer of `/api/v1`; {} if there is none."""
        named = {name.rstrip("_"): value for name, value in query.items()}
        wanted = urlencode({"cluster": self.cluster, "topic": self.topic, **named})
        answer = self.audit.ask(f"/api/v1/{path}?{wanted}")
        found = json.loads(answer.body) if answer.status == 200 else {}
        assert isinstance(found, dict)
        return found


def _is_done(report: Mapping[str, Any]) -> bool:
    return report["state"] != "pending" and not report["waits_total"]


def now() -> int:
    return time.time_ns() // 1_000_000


class VerdictWatch(Worker):
    """What the verdict calls a fault, while nothing is lost."""

    def __init__(self, ask: Callable[[], Json]) -> None:
        """`ask`: what the audit says of the topic now; nothing, if it does not answer."""
        super().__init__("verdict")
        self._ask = ask
        self.asked = 0
        self.faults: list[str] = []

    def work(self) -> None:
        while not self._stop_asked.wait(1.0):
            said = self._ask()
            self.asked += bool(said)
            if said.get("state") in _FAULTS:
                self.faults += [f"{said['state']}: {each['words']}" for each in said["findings"]]


class Chapters(Worker):
    """Closes them one after the other, while the run goes on."""

    def __init__(
        self, asked: AskedTopic, begin: int, length: int, kept: int, tiers: Sequence[str]
    ) -> None:
        """All in milliseconds: when the first begins, how long each is, what the audit keeps. With
        a `length` of 0 all of it is one chapter. `tiers`: those that count every line."""
        super().__init__("chapters")
        self.begin = begin  # of the one that is open
        self.last = begin  # where the one before it began
        self.reports: list[Json] = []
        self.cells: list[Json] = []
        self.late: list[str] = []
        self._asked = asked
        self._length, self._kept, self._tiers = length, kept, tiers

    def work(self) -> None:
        while self._length and not self._stop_asked.wait(2.0):
            end = self.begin + self._length
            if now() > end:
                self.try_to_close(end)
            if now() - self.begin > self._kept and not self.late:
                self.late.append(f"the verdict on a chapter was awaited for {self._kept // 1000} s")

    def try_to_close(self, end: int) -> None:
        report = self._asked.report(self.begin, end)
        if report.get("as_of", 0) >= end and is_closed(report, self._tiers):
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


def is_closed(report: Json, tiers: Sequence[str]) -> bool:
    """Nobody is waited for, and each tier has spoken: before its first load, a topic is not
    expected in files, and would be complete without them."""
    spoken = {each["tier"] for each in report["tiers"]}
    return spoken >= set(tiers) and report["state"] != "pending" and not report["waits_total"]


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


_SHOWN: Final = 3
Json = Mapping[str, Any]


def verdict(
    report: Json, exit_code: int, cells: Sequence[Json], lines: int, tiers: Sequence[str]
) -> Iterator[str]:
    """`exit_code` and `report`: of `penstock report`; `cells`: windows, as /api/v1/topic has them;
    `tiers`: those that count every line."""
    if exit_code != 0 or report.get("state") != "complete":
        words = [each["words"] for each in [*report.get("findings", []), *report.get("waits", [])]]
        said = f"{report.get('state', 'nothing')} ({exit_code})"
        yield f"the verdict: {said}; {_some(words)}"
    for name in ("missing", "excess", "unclaimed", "pending", "findings_total", "waits_total"):
        if report.get(name, 0):
            yield f"the verdict: {name} {report[name]}"
    events = dict.fromkeys(tiers, 0)
    for tier in report.get("tiers", []):
        if tier["tier"] in events:
            events[tier["tier"]] += tier["events"]
    for name, count in events.items():
        if count != lines:
            yield f"the tier {name}: {count} events of {lines} lines"
    flow = report.get("flow", {})
    if (flow.get("read"), flow.get("shipped"), flow.get("lost")) != (lines, lines, 0):
        yield f"the flow: {dict(flow)} of {lines} lines"
    incomplete = [each for each in cells if each["state"] != "complete"]
    if incomplete or not cells:
        yield f"{len(incomplete)} of {len(cells)} windows are not complete"


def registry(
    answered: Sequence[tuple[int, int]], registered: Sequence[Mapping[int, int]]
) -> Iterator[str]:
    """Registrations that were answered, by number and id, and what each registry says now."""
    ids = Counter(number for _, number in answered)
    if doubled := [each for each, count in ids.items() if count > 1]:
        yield f"the registry: ids given to two schemas: {_some(map(str, doubled))}"
    for place, known in enumerate(registered, 1):
        wrong = [each for each in answered if known.get(each[0]) != each[1]]
        if wrong:
            yield f"registry {place}: {len(wrong)} registrations changed: {_some(map(str, wrong))}"


def _some(words: Iterable[str]) -> str:
    listed = list(words)
    more = f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return "; ".join(listed[:_SHOWN]) + more
