"""An hour at the offline cluster is complete once every agent of the origin is past it, and all
that they shipped came through the mirror, by the real programs; what is lost on the way is named.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from harness.mirror_process import MirrorProcess
from harness.waiting import wait_until
from tests.mirror.logs import delete_before, ends
from tests.system.mirror.told_of_both import HOST, OFFLINE, PATIENCE, SOURCE, ToldOfBoth

TOPIC, COPY = "clicks", "dc1.clicks"
_BROKEN = "tests.campaigns.mirror.leaping_mirror"

pytestmark = [pytest.mark.timeout(900)]


@pytest.fixture
def both(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[ToldOfBoth]:
    with ToldOfBoth(tmp_path, f"{zookeeper.address}/{uuid.uuid4().hex}", TOPIC) as both:
        yield both


def test_an_hour_is_complete_once_all_came_through_the_mirror(both: ToldOfBoth) -> None:
    both.write(100)
    agent = both.agent()
    with both.mirror():
        whole = both.wait_for(OFFLINE, COPY, "complete", mirror=100, broker=100)
        assert [each.tier for each in whole.tiers] == ["agent", "origin", "mirror", "broker"]
        assert [each.events for each in whole.tiers] == [100] * 4
        assert both.gate(OFFLINE, COPY).complete
    both.write(100)
    both.wait_for(SOURCE, TOPIC, "complete", agent=200, broker=200)
    assert both.gate(OFFLINE, COPY).missing == "the copy, in which not all of it is"
    assert both.wait_for(OFFLINE, COPY, "pending", origin=200, broker=100).missing == 0
    for _ in range(3):  # a mirror that is killed has said what it could
        mirror = both.mirror()
        mirror.start()
        both.write(50)
        wait_until(
            lambda: both.tiers(OFFLINE, COPY).get("broker") == both.tiers(SOURCE, TOPIC)["agent"],
            within=PATIENCE,
            what="some is copied",
        )
        mirror.kill()
        found = both.report(OFFLINE, COPY)
        assert found is not None
        assert not found.findings
    with both.mirror():
        both.wait_for(OFFLINE, COPY, "complete", agent=350, mirror=350, broker=350)
        agent.kill()


def test_what_the_ledger_could_not_be_told_is_told_when_it_can(both: ToldOfBoth) -> None:
    """Nobody gives the schema of its entries: copying goes on, and the worker says what waits."""
    both.write(100)
    both.agent()
    both.registry[OFFLINE].kill()
    with both.mirror() as mirror, both.brokers(OFFLINE) as here:
        for copied in (100, 150):
            wait_until(
                lambda copied=copied: (
                    here.refresh([COPY]).has(COPY) and ends(here, COPY) == {0: copied}
                ),
                within=PATIENCE,
                what=f"{copied} are copied",
            )
            wait_until(
                lambda: any("the ledger is not told: " in each for each in _remarks(mirror)),
                within=PATIENCE,
                what="it is said",
            )
            if copied == 100:
                both.write(50)
        both.registry[OFFLINE].start()
        both.wait_for(OFFLINE, COPY, "complete", mirror=150, broker=150)
        wait_until(lambda: not _remarks(mirror), within=PATIENCE, what="all is told")


def _remarks(mirror: MirrorProcess) -> list[str]:
    found = mirror.standing()
    return [] if found is None else list(found["remarks"])


def test_a_line_that_is_lost_between_the_clusters_is_named(both: ToldOfBoth) -> None:
    """By a mirror that leaps over a gap, and tells nobody."""
    both.write(100)
    both.agent()
    with both.mirror():
        both.wait_for(OFFLINE, COPY, "complete", mirror=100, broker=100)
    both.write(100)
    both.wait_for(SOURCE, TOPIC, "complete", agent=200, broker=200)
    with both.brokers(SOURCE) as there, both.brokers(OFFLINE) as here:
        delete_before(there, TOPIC, 150)
        broken = both.mirror(program=_BROKEN)
        broken.spawn()
        both.write(50)
        both.wait_for(SOURCE, TOPIC, "complete", agent=250, broker=250)
        wait_until(lambda: ends(here, COPY)[0] == 250, within=PATIENCE, what="the rest is copied")
        broken.kill()
    copied = both.wait_for(OFFLINE, COPY, "missing", agent=250, origin=250)
    assert copied.missing
    assert {each.host for each in copied.findings} == {HOST}, copied
    assert {each.path for each in copied.findings} == {str(both.path)}
    lines = both.path.read_bytes().splitlines(keepends=True)
    lost = [
        number for each in copied.findings for number in range(each.seq, each.seq + each.events)
    ]
    assert lost == list(range(100, 100 + copied.missing))
    for each in copied.findings:
        begin, end = len(b"".join(lines[:100])), len(b"".join(lines[: lost[-1] + 1]))
        assert each.position <= begin
        assert end <= each.end_position
        assert "were not copied from dc1/clicks" in each.words
    with both.mirror():  # it reads again what was told by nobody, and accepts nothing
        copied = both.wait_for(OFFLINE, COPY, "missing", mirror=200)
    gate = both.gate(OFFLINE, COPY)
    assert not gate.complete
    assert str(both.path) in gate.missing
    assert both.wait_for(SOURCE, TOPIC, "complete").missing == 0
    assert both.gate(SOURCE, TOPIC).complete


def test_a_gap_that_was_accepted_is_told_and_holds_up_no_hour(both: ToldOfBoth) -> None:
    both.write(100)
    both.agent()
    with both.mirror():
        both.wait_for(OFFLINE, COPY, "complete", mirror=100, broker=100)
    both.write(100)
    both.wait_for(SOURCE, TOPIC, "complete", agent=200, broker=200)
    with both.brokers(SOURCE) as there:
        delete_before(there, TOPIC, 150)
    with both.mirror():
        assert both.wait_for(OFFLINE, COPY, "pending", origin=200, broker=100).missing == 0
        assert not both.gate(OFFLINE, COPY).complete
    with both.mirror("--accept-gap", COPY):
        copied = both.wait_for(OFFLINE, COPY, "complete", origin=200, broker=150, mirror=150)
    assert {each.path for each in copied.findings} == {str(both.path)}
    (finding,) = copied.findings
    assert "dc1 had deleted them before they were copied: --accept-gap" in finding.accepted
    assert both.gate(OFFLINE, COPY).complete


def test_after_promote_lines_of_both_sides_are_judged(both: ToldOfBoth) -> None:
    """The agent goes on to the offline cluster, and a line of its is judged there."""
    both.write(100)
    agent = both.agent()
    mirror = both.mirror()
    with mirror:
        both.wait_for(OFFLINE, COPY, "complete", mirror=100, broker=100)
        agent.terminate()
        told = mirror.told("promote", COPY)
        assert told.returncode == 0, told.stdout + told.stderr
    both.begin_file_anew()
    both.write(60)
    both.agent(cluster=OFFLINE, to=COPY)
    copied = both.wait_for(OFFLINE, COPY, "complete", agent=160, broker=160)
    assert not copied.findings
    assert both.gate(OFFLINE, COPY).complete
