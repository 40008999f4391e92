"""What is wrong with a verdict and with registrations, held against what was written. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

_SHOWN: Final = 3
Json = Mapping[str, Any]


def verdict(
    report: Json,
    exit_code: int,
    cells: Sequence[Json],
    lines: int,
    tiers: Sequence[str],
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
