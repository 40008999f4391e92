"""An upgrade, a roll back and a power cut while log files are renamed every three seconds, on two
hosts that boot: an agent that is started again leaves no doubt in the verdict.

Each test begins with the site as the one before has left it.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from harness.hosts.hosts import Host
from tests.fleet.fleet import Fleet
from tests.fleet.marked import plays_on_hosts
from tests.fleet.releases import next_commit
from tests.fleet.sites import TOPIC, Site

FIRST: Final = "dc1-a"
WEB: Final = "web-1"
LINES_A_FILE: Final = 60  # of some 20 lines a second

pytestmark = plays_on_hosts(2_400)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    hosts = {FIRST: Host(java=True), WEB: Host()}
    with Fleet(tmp_path_factory.mktemp("fleet"), hosts) as fleet:
        site = Site(fleet, zookeepers=[FIRST], brokers=list(hosts), registries=[FIRST], audit=FIRST)
        site.release()
        site.play("site").must_succeed()
        yield site


def test_an_upgrade_and_a_roll_back(site: Site) -> None:
    site.write(lines_a_file=LINES_A_FILE)
    site.must_serve(FIRST, WEB)
    (before,) = set(site.versions().values())
    new = site.release(next_commit())
    assert new != before
    site.play("site").must_succeed()
    assert set(site.versions().values()) == {new}
    site.play("rollback").must_succeed()
    assert set(site.versions().values()) == {before}
    must_be_proven(site)


def test_a_host_that_loses_its_power(site: Site) -> None:
    """What the kernel had not written to disk is still there: the machine below lives on."""
    site.write(lines_a_file=LINES_A_FILE)
    site.must_serve(WEB)
    site.fleet.kill(WEB)
    site.fleet.ssh(FIRST, "sleep 10")  # in which lines are written there
    site.fleet.start(WEB)
    site.write(WEB, lines_a_file=LINES_A_FILE)
    site.must_serve(WEB)
    must_be_proven(site)


def must_be_proven(site: Site) -> None:
    """Each line that was written is there once, as the audit says."""
    site.write_no_more()
    report = " ".join(site.must_have_arrived().stdout.split())
    written = f"{sum(site.written().values()):,}"
    assert f"complete {TOPIC} {written} {written} " in report
    assert f"read {written} = shipped {written} " in report
    assert "other producers" not in report
