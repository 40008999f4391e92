"""What is wrong with a run: the truth of the application against everything that is said and there.

    in the log        each line is there once, and nothing else
    in the store      each line is in one row, and nothing else
    in the verdict    complete, with exit code 0, for every window; nothing found, nothing awaited
    in the tiers      agents, brokers and files have as many events as lines were written, exactly
    in the registry   each registration that was answered stands, in every registry, under its id

Pure, on values. Objections are sentences; where there are none, nothing is wrong.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

TIERS: Final = ("agent", "broker", "hdfs")
_SHOWN: Final = 3
Json = Mapping[str, Any]


class Evidence(msgspec.Struct, frozen=True):
    """What a run left behind."""

    written: Sequence[str]  # lines, all different
    logged: Sequence[str]  # of all records in the topic
    sources: Sequence[tuple[str, int]]  # of the same records: source and number
    landed: Sequence[str]  # of all rows in the store
    exit_code: int  # of `penstock report`
    report: Json  # what it says of the topic
    cells: Sequence[Json]  # windows, as /api/v1/topic has them
    answered: Sequence[tuple[int, int]] = ()  # registrations: number and id
    registered: Sequence[Mapping[int, int]] = ()  # by registry: the same, as it says it now
    tiers: Sequence[str] = TIERS  # that count every line
    troubles: Sequence[str] = ()  # what went wrong meanwhile, in words
    faults_meanwhile: Sequence[str] = ()  # what the verdict called faults


def judge(evidence: Evidence) -> list[str]:
    return list(
        chain(
            evidence.troubles,
            _compared("the log", evidence.written, evidence.logged),
            _doubled_numbers(evidence.sources),
            _compared("the store", evidence.written, evidence.landed),
            verdict(
                evidence.report,
                evidence.exit_code,
                evidence.cells,
                len(evidence.written),
                evidence.tiers,
            ),
            registry(evidence.answered, evidence.registered),
            (f"meanwhile: {each}" for each in dict.fromkeys(evidence.faults_meanwhile)),
        )
    )


def _compared(where: str, written: Sequence[str], found: Sequence[str]) -> Iterator[str]:
    wanted, there = Counter(written), Counter(found)
    lost = [each for each in wanted if each not in there]
    foreign = [each for each in there if each not in wanted]
    doubled = [each for each, count in there.items() if count > 1]
    for what, lines in (("lost", lost), ("doubled", doubled), ("never written", foreign)):
        if lines:
            yield f"in {where}: {len(lines)} lines {what}: {_some(lines)}"


def _doubled_numbers(sources: Sequence[tuple[str, int]]) -> Iterator[str]:
    doubled = [each for each, count in Counter(sources).items() if count > 1]
    if doubled:
        yield f"in the log: {len(doubled)} numbers of sources twice: {_some(map(str, doubled))}"


def verdict(
    report: Json,
    exit_code: int,
    cells: Sequence[Json],
    lines: int,
    tiers: Sequence[str] = TIERS,
) -> Iterator[str]:
    """Against so many lines. The arguments are `Evidence`'s."""
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
    """The arguments are `Evidence`'s."""
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
