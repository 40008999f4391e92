"""Day two of a site, on hosts that boot: another release and back, new certificates, a broker more
and one less. Lines are written on every host all the while, and each has arrived once: the audit
says so, and whoever counts lines in the topic.

Each test begins with the site as the one before has left it.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from harness.hosts.hosts import Host
from tests.fleet.fleet import Fleet
from tests.fleet.marked import plays_on_hosts
from tests.fleet.releases import commit_that_brought
from tests.fleet.sites import Site

TRIO: Final = ("dc1-a", "dc1-b", "dc1-c")
NEXT: Final = "dc1-d"  # an agent, and later a broker
WEB: Final = "web-1"
FIRST_FILE: Final = "deploy/bundle/downloads/zookeeper-jars.lock"  # of releases that all roles take


pytestmark = plays_on_hosts(3_600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Of the older release, with lines on their way."""
    hosts = {name: Host(java=name in TRIO) for name in (*TRIO, NEXT, WEB)}
    with Fleet(tmp_path_factory.mktemp("fleet"), hosts) as fleet:
        site = Site(fleet, zookeepers=TRIO, brokers=TRIO, registries=TRIO[:2], audit=TRIO[-1])
        site.write()
        site.release(commit_that_brought(FIRST_FILE))
        site.play("site").must_succeed()
        yield site


def test_another_release_and_back(site: Site) -> None:
    before = site.groups["all"]["vars"]["penstock_release"]
    assert set(site.versions().values()) == {before}
    new = site.release()
    site.play("site").must_succeed()
    assert set(site.versions().values()) == {new}
    site.play("rollback").must_succeed()
    assert set(site.versions().values()) == {before}
    site.play("site").must_succeed()
    assert set(site.versions().values()) == {new}
    assert site.play("site").must_succeed().changed == []


def test_new_certificates_and_nothing_starts_again(site: Site) -> None:
    def certificates() -> dict[str, str]:
        sums = "sha256sum /etc/penstock/tls/*.pem"
        found = {}
        for host in site.fleet.hosts:
            for line in site.fleet.ssh(host, sums).splitlines():
                of, path = line.split()
                found[f"{host}:{path}"] = of
        return found

    running, before = site.invocations(), certificates()
    site.play("rotate_certificates").must_succeed()
    now = certificates()
    same = {path for path in before if now[path] == before[path]}
    assert {path.rpartition("/")[2] for path in same} == {"ca.pem", "revoked.pem"}
    assert len(same) < len(before)
    assert site.invocations() == running


def test_a_broker_more_and_one_less(site: Site) -> None:
    site.has_broker(NEXT, 4)
    site.play("add_broker", {"penstock_new_broker": NEXT}).must_succeed()
    shares = site.replicas()
    assert shares[4] >= sum(shares.values()) // 5, shares
    leaves = TRIO[1]
    site.play("drain_broker", {"penstock_leaving_broker": leaves}).must_succeed()
    assert not site.replicas()[2]
    assert site.fleet.ask(leaves, "systemctl is-active penstock-broker").stdout != "active\n"
    site.has_no_broker(leaves)
    site.play("site").must_succeed()
    assert site.play("site").must_succeed().changed == []


def test_every_line_of_all_that_time_has_arrived_once(site: Site) -> None:
    site.write_no_more()
    site.must_have_arrived()
