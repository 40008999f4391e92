"""A datacenter and the offline cluster that its lines end in, each by an inventory of its own in
one folder, as in the examples: agents, three brokers, and on a host elsewhere a cluster with
mirror, loader and audit. Lines are written on every agent's host all the while; at the end each is
one row in the files there. The audit says so, and whoever reads the files.

Each test begins with the sites as the one before has left them.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from harness.hosts.hosts import Host
from harness.processes.waiting import wait_until
from tests.fleet.fleet import Fleet
from tests.fleet.marked import plays_on_hosts
from tests.fleet.sites import LOCK, TOPIC, Site

TRIO: Final = ("dc1-a", "dc1-b", "dc1-c")
WEB: Final = ("web-1", "web-2", "web-3")
FAR: Final = "off-a"
COPY: Final = f"dc1.{TOPIC}"
ROWS: Final = "/srv/logs"
_WITHIN: Final = 600.0

# All values of the table's files, as whoever reads the folder sees them; by no program of ours.
_READER: Final = f"""
import json, re
from pyarrow import dataset
try:
    rows = dataset.dataset("{ROWS}/{COPY}", format="parquet", partitioning="hive").to_table()
except FileNotFoundError:
    rows = None
text = "" if rows is None else json.dumps(rows.to_pylist(), default=str)
print(json.dumps(re.findall(r"[a-z0-9-]+ line [0-9]+", text)))
"""

pytestmark = plays_on_hosts(3_600)


class Sites(NamedTuple):
    near: Site
    far: Site


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    hosts = {name: Host(java=name not in WEB) for name in (*TRIO, *WEB, FAR)}
    with Fleet(tmp_path_factory.mktemp("fleet"), hosts) as fleet:
        near = Site(fleet, zookeepers=TRIO, brokers=TRIO, registries=TRIO[:2], agents=WEB)
        near.groups["all"]["vars"]["penstock_registry_config"] = {"id_base": 1, "id_count": 1000}
        far = Site(
            fleet,
            cluster="offline",
            zookeepers=[FAR],
            brokers=[FAR],
            registries=[FAR],
            audit=FAR,
            agents=[],
        )
        far.groups["all"]["vars"] |= _offline()
        far.groups |= {"penstock_mirror": [FAR], "penstock_loader": [FAR], "elsewhere": WEB}
        near.write()
        release = near.release(spark=True)
        far.groups["all"]["vars"]["penstock_release"] = release
        yield Sites(near, far)


def _offline() -> dict[str, Any]:
    """What the inventory of such a cluster says beside who is who."""
    brokers = [f"{name}:9092" for name in TRIO]
    return {
        "penstock_registry_config": {
            "id_base": 1_000_000_000,
            "mirrored": [{"topic": "dc1._schemas"}],
        },
        "penstock_mirror_config": {"schemas": True},
        "penstock_mirror_source": {"cluster": "dc1", "brokers": brokers},
        "penstock_audit_clusters": {
            "dc1": {
                "brokers": brokers,
                "registry": ",".join(f"https://{name}:8081" for name in TRIO[:2]),
            }
        },
        "penstock_audit_expected_groups": ["elsewhere"],
        "penstock_loader_root": f"file://{ROWS}",
        "penstock_loader_topics": ["dc?.*"],
        "penstock_loader_on_calendar": "*:*:00/30",
    }


def rows(far: Site) -> Counter[str]:
    """Each line as often as it is in a row."""
    python = "/opt/penstock/current/bin/python"
    far.fleet.write(FAR, "/usr/local/lib/reads-rows.py", _READER)
    return Counter(json.loads(far.fleet.ssh(FAR, f"{python} -I /usr/local/lib/reads-rows.py")))


def must_become_rows(sites: Sites) -> None:
    """A line that is written on each host from now on."""
    near, far = sites
    wanted = {near.last_line(host) for host in near.writers}
    wait_until(
        lambda: wanted <= rows(far).keys(),
        within=_WITHIN,
        what=f"{', '.join(sorted(wanted))}: a row each",
        every=5,
    )


def test_from_empty_hosts_until_lines_are_rows_elsewhere(sites: Sites) -> None:
    for site in sites:
        site.play("site").must_succeed()
    running = sites.near.invocations()
    for site in sites:
        assert site.play("site").must_succeed().changed == []
    assert sites.near.invocations() == running
    must_become_rows(sites)


def test_one_cluster_is_changed_and_the_other_is_left_alone(sites: Sites) -> None:
    near, far = sites
    running = near.invocations()
    far.groups["all"]["vars"]["penstock_broker_config"] = {"limits": {"connections": 4_321}}
    played = far.play("rolling").must_succeed()
    assert set(played.by_host("changed")) == {FAR}
    now = near.invocations()
    anew = {each for each, invocation in now.items() if invocation != running.get(each)}
    assert (FAR, "penstock-broker.service") in anew
    assert {host for host, _ in anew} == {FAR}

    # Who is at one does not keep anybody from the other.
    playing = near.fleet.start_play("rolling", near.groups, {"penstock_rolling_restart": True})
    wait_until(
        lambda: near.fleet.ask(TRIO[0], f"test -e {LOCK}").exit_code == 0,
        within=300,
        what="somebody has begun there",
    )
    assert far.play("site").must_succeed().changed == []
    playing.wait().must_succeed()
    must_become_rows(sites)


def test_the_offline_cluster_loses_power_and_the_datacenter_serves(sites: Sites) -> None:
    near, far = sites
    near.fleet.kill(FAR)
    near.must_serve(*WEB)
    near.fleet.start(FAR)
    must_become_rows(sites)
    assert far.play("site").must_succeed().changed == []


def test_every_line_of_all_that_time_is_one_row(sites: Sites) -> None:
    near, far = sites
    near.write_no_more()
    far.must_be_complete(COPY, _WITHIN)
    assert near.landed() == near.written()
    assert rows(far) == near.written()
