"""One line that is taken away between the clusters: who says so, and what it is called.

The mirror is stopped, the line is shipped and counted at its part, and deleted there before
it was copied, as by a retention that is too short. Another program goes on in the mirror's place,
leaps over the gap and tells nobody. All else arrives: the loader, which would stop at a gap, is
told to go on.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.processes.server_process import ServerProcess
from harness.processes.waiting import wait_until
from tests.campaigns.command import REPOSITORY
from tests.campaigns.loading import WELL
from tests.campaigns.mirror import leaping_mirror
from tests.campaigns.pipeline.application import Application
from tests.campaigns.pipeline.asking import now
from tests.campaigns.pipeline.shapes import TOPIC, Part
from tests.campaigns.pipeline.site import Site
from tests.client.shipped_topics import delete_before

_MOST_LINES: Final = 500
_COUNTED: Final = 120.0
_FAULTY: Final = "missing"


def sabotage(site: Site, application: Application, part: Part, since: int) -> tuple[list[str], str]:
    """What is not as it should be, in words, and how the verdict names the line."""
    host = part.hosts[0]
    mirrors = site.mirrors[part.name]
    for number in mirrors.mirrors:
        mirrors.stop(number)
    before = site.ends_at_source(part)
    path, begins, ends = application.write_one(host)
    site.wait_shipped(application.sizes())
    after = site.ends_at_source(part)
    (partition,) = (each for each in after if after[each] != before[each])
    _wait_counted(site, part, application, since)
    with site.places[part.name].connected() as brokers:
        delete_before(brokers, TOPIC, after[partition], partition)
    # What lies behind the last that was copied would be waited for, and not missed.
    for _ in range(_MOST_LINES):
        application.write_one(host)
        site.wait_shipped(application.sizes())
        if site.ends_at_source(part)[partition] > after[partition]:
            break
    with _silent(site, part):
        site.wait_copied(part)
    for number in mirrors.mirrors:
        mirrors.begin(number)
    site.wait_whole()
    wrong = []
    for _ in range(2):  # up to the gap, if that was not loaded before, and on behind it
        code, said = site.loader.load("--accept-gap", "--topics", part.copy(site.shape.last))
        wrong += [] if code in WELL else [f"the load ended with {code}: {said}"]
    asked = site.at_end(part)
    report = asked.settled(since, _is_done)
    wrong += _objections(report, asked.report_command(since), (host, str(path), begins, ends, 1))
    return wrong, "; ".join(each["words"] for each in report.get("findings", []))


def _silent(site: Site, part: Part) -> ServerProcess:
    """A mirror that is none of Penstock's."""
    mirror = site.mirrors[part.name].mirrors[1]
    process = ServerProcess(
        [sys.executable, "-m", leaping_mirror.__name__, "mirror", "--config", str(mirror.config)],
        output=mirror.config.with_name("leaps.log"),
        directory=REPOSITORY,
    )
    process.spawn()
    return process


def _wait_counted(site: Site, part: Part, application: Application, since: int) -> None:
    """Until the brokers of the part have told the ledger of every line."""
    lines = sum(application.counts[each] for each in part.hosts)
    asked = site.at_origin(part)

    def is_counted() -> bool:
        tiers = asked.report(since, now()).get("tiers", [])
        events = {each["tier"]: each["events"] for each in tiers}
        return bool(events.get("agent") == events.get("broker") == lines)

    wait_until(is_counted, within=_COUNTED, what=f"{lines} lines are counted", every=0.5)


def _is_done(report: Mapping[str, Any]) -> bool:
    return report["state"] == _FAULTY and not report["waits_total"]


def _objections(
    report: Mapping[str, Any], exit_code: int, line: tuple[str, str, int, int, int]
) -> Iterator[str]:
    """`line`: host, file, where it begins and ends there, and that it is one event."""
    if report.get("state") != _FAULTY or exit_code == 0:
        yield f"the verdict on a line that is lost: {report.get('state', 'nothing')} ({exit_code})"
    findings = report.get("findings", [])
    names = ("host", "path", "position", "end_position", "events")
    named = [tuple(each[name] for name in names) for each in findings]
    if named != [line] or report.get("missing") != 1:
        yield f"{report.get('missing')} missing, named {named}: it is {line}"
