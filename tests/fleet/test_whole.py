"""From empty hosts to a green verdict, by one inventory and the playbook `site`; the same once
more, which changes nothing; one setting, for which nothing else is started again. Lines are written
on every host all the while, and each has arrived once.

Each test begins with the site as the one before has left it. Those without `setting` in their names
are `make fleet-small`, for which there is time in every run of all tests.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from harness.hosts.hosts import Host
from tests.fleet.fleet import Fleet
from tests.fleet.marked import plays_on_hosts
from tests.fleet.sites import TOPIC, Site, hours_ago

NAMES: Final = ("dc1-a", "dc1-b", "dc1-c")
OPERATOR: Final = "alice"

pytestmark = plays_on_hosts(2_400)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two hosts, or three with a ZooKeeper each where there is time."""
    three = os.environ["PENSTOCK_FLEET"] != "small"
    names = NAMES if three else NAMES[:2]
    some = {name: Host(java=three or name == NAMES[0]) for name in names}
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), some)
    site = Site(
        fleet,
        zookeepers=names if three else names[:1],
        brokers=names,
        registries=names[:2] if three else names[1:],
        audit=names[-1],
    )
    with ThreadPoolExecutor(1) as aside:
        released = aside.submit(site.release)  # as long as hosts take to be made
        with fleet:
            released.result()
            yield site


def test_empty_hosts_become_a_site(site: Site) -> None:
    site.write()
    for host in site.fleet.hosts:
        site.fleet.ssh(host, f"useradd --create-home {OPERATOR}")
    site.groups["all"]["vars"]["penstock_operators"] = [OPERATOR]
    first = site.play("site").must_succeed()
    assert set(first.by_host("changed")) == set(site.fleet.hosts)
    running = site.invocations()
    assert {(host, "penstock-agent.service") for host in site.fleet.hosts} <= running.keys()
    assert {(host, "penstock-broker.service") for host in site.brokers} <= running.keys()


def test_once_more_changes_nothing(site: Site) -> None:
    running = site.invocations()
    assert site.play("site").must_succeed().changed == []
    assert site.invocations() == running


def test_a_setting_starts_only_what_it_is_for_again(site: Site) -> None:
    running = site.invocations()
    setting = {"penstock_broker_config": {"limits": {"connections": 4_321}}}
    shown = site.play("site", setting, check=True).must_succeed()
    assert "connections: 4321" in shown.output
    assert site.invocations() == running
    other = site.play("site", setting).must_succeed()
    assert set(other.by_host("changed")) == set(site.brokers)
    now = site.invocations()
    anew = {each for each, invocation in now.items() if invocation != running[each]}
    assert anew == {(host, "penstock-broker.service") for host in site.brokers}


def test_every_line_has_arrived_once(site: Site) -> None:
    site.write_no_more()
    site.must_have_arrived()


def test_an_operator_needs_no_options_on_any_host(site: Site) -> None:
    report = f"report {TOPIC} --from {hours_ago(6)}"
    for host in site.fleet.hosts:
        for command in (report, "topics list", "status"):
            ended = site.fleet.ask(host, f"runuser -u {OPERATOR} -- penstock {command}")
            assert (ended.exit_code, TOPIC in ended.stdout) == (0, True), (ended, command)
        other = site.fleet.ask(host, "runuser -u nobody -- penstock status")
        assert "members of the group penstock-operators may read it" in other.stderr
