"""What goes wrong while a site is changed, on hosts that boot: what stops, what is left and still
serves, what whoever runs the playbook is told, and that the same playbook converges afterwards.
Then what a site is kept, looked into and ended with: backup and restore, a bundle for support, a
host that retires, and no trace of any of it.

Each test begins with the site as the one before has left it: three brokers, on the first of which
is everything else. `dc1-b` is the one that loses power and its connections; `dc1-c` has a small
disk. Lines are written on every host all the while, and each has arrived once.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness.hosts.hosts import Host
from harness.processes.waiting import wait_until
from tests.fleet.fleet import Fleet, Played, Playing
from tests.fleet.marked import plays_on_hosts
from tests.fleet.releases import next_commit
from tests.fleet.sites import LOCK, Site

FIRST: Final = "dc1-a"
AWAY: Final = "dc1-b"
SMALL: Final = "dc1-c"
DISK: Final = 1200 << 20
AGAIN: Final = {"penstock_rolling_restart": True}
BROKEN_START: Final = "/etc/systemd/system/penstock-broker.service.d/99-broken.conf"
# An application's team, and who may read what below a directory by ACL.
_TEAM: Final = """
- hosts: {host}
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {{name: penstock.pipeline.agent, tasks_from: application}}
      vars:
        penstock_agent_application: shop
        penstock_agent_application_inputs: [{{paths: ["{logs}/*.log"], topic: shop}}]
        penstock_agent_application_logs: ["{logs}"]
"""
_ACLS: Final = (
    "import os, sys; print([(each[0], os.listxattr(each[0])) for each in os.walk(sys.argv[1])])"
)

pytestmark = plays_on_hosts(3_600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    hosts = {FIRST: Host(java=True), AWAY: Host(), SMALL: Host(small={"/opt": DISK})}
    with Fleet(tmp_path_factory.mktemp("fleet"), hosts) as fleet:
        site = Site(fleet, zookeepers=[FIRST], brokers=list(hosts), registries=[FIRST], audit=FIRST)
        site.groups["all"]["vars"]["penstock_gate_steady"] = 2
        # Agents are away for longer than it takes to rename a file.
        site.write(lines_a_file=0)
        site.release()
        site.play("site").must_succeed()
        yield site


def test_a_wrong_setting_replaces_nothing(site: Site) -> None:
    before, running = configurations(site), site.invocations()
    wrong = site.play("rolling", {"penstock_broker_config": {"limits": {"conections": 1}}})
    must_have_stopped(wrong, FIRST, "limits.conections")
    assert configurations(site) == before
    assert site.invocations() == running
    set_connections(site, 4_321)
    site.play("rolling").must_succeed()
    assert nobody_is_at_it(site)
    assert configurations(site) != before


def test_a_host_that_loses_power_in_the_middle_of_a_roll(site: Site) -> None:
    set_connections(site, 4_322)
    playing = site.fleet.start_play("rolling", site.groups)
    wait_for(playing, "Write the configuration", AWAY)
    site.fleet.kill(AWAY)
    played = playing.wait()
    assert played.exit_code != 0
    assert played.unreachable == {AWAY}
    # Ansible goes on to the next host when it has lost one: that host is not touched.
    must_have_stopped(played, SMALL, f"{SMALL} was not changed, because not all brokers are up")
    site.must_serve(FIRST, SMALL)

    # While it is away nobody else is touched, and no second broker is away with it.
    running = site.fleet.ssh(SMALL, "systemctl show -P InvocationID penstock-broker")
    early = site.play("rolling", AGAIN)
    assert early.exit_code != 0
    assert f"{AWAY} does not answer, and nothing was changed" in early.output
    assert site.fleet.ssh(SMALL, "systemctl show -P InvocationID penstock-broker") == running
    refused = site.play("site")
    assert refused.exit_code != 0
    assert f"{AWAY} does not answer, and nothing was changed" in refused.output

    site.fleet.start(AWAY)
    site.write(AWAY, lines_a_file=0)
    site.play("rolling").must_succeed()
    assert nobody_is_at_it(site)
    assert has_connections(site, 4_322)


def test_a_broker_that_does_not_come_back_and_a_second_operator(site: Site) -> None:
    site.fleet.write(AWAY, BROKEN_START, "[Service]\nExecStartPre=/bin/false\n")
    site.fleet.ssh(AWAY, "systemctl daemon-reload")
    playing = site.fleet.start_play(
        "rolling", site.groups, {**AGAIN, "penstock_common_timeout": 30}
    )
    wait_until(
        lambda: site.fleet.ask(FIRST, f"test -e {LOCK}").exit_code == 0,
        within=300,
        what="the first operator has begun",
    )
    second = site.play("site")
    assert second.exit_code != 0
    assert " has been running rolling since " in second.output
    assert "-e penstock_gate_take_over=true" in second.output
    assert second.changed == []

    played = playing.wait()
    must_have_stopped(played, AWAY, "penstock-broker.service was not ready after 30 s")
    site.must_serve(FIRST, SMALL)
    site.fleet.ssh(AWAY, f"rm {BROKEN_START} && systemctl daemon-reload")
    again = site.play("rolling", AGAIN).must_succeed()
    begun = [each.host for each in again.tasks if each.task == "Run the program"]
    assert begun[0] == AWAY
    assert sorted(begun) == sorted(site.brokers)
    assert nobody_is_at_it(site)


def test_a_roll_of_some_hosts_keeps_others_away_from_all(site: Site) -> None:
    """The host that keeps who is at it is left out."""
    running = site.fleet.ssh(FIRST, "systemctl show -P InvocationID penstock-broker")
    some = ["--limit", f"!{FIRST}"]
    playing = site.fleet.start_play("rolling", site.groups, AGAIN, *some)
    wait_for(playing, "Run the program", AWAY)
    second = site.play("site")
    assert second.exit_code != 0
    assert " has been running rolling since " in second.output
    assert f"(at {AWAY})" in second.output
    assert second.changed == []
    played = playing.wait().must_succeed()
    assert {each.host for each in played.tasks if each.task == "Wait for the gate"} == {AWAY, SMALL}
    assert nobody_is_at_it(site)
    assert site.fleet.ssh(FIRST, "systemctl show -P InvocationID penstock-broker") == running


def test_an_upgrade_with_a_broken_wheel_a_lost_connection_and_a_full_disk(site: Site) -> None:
    old, running = site.versions(), site.invocations()
    new = site.release(next_commit(), broken=True)
    broken = site.play("site")
    must_have_stopped(broken, FIRST, "programs on this host are unchanged")
    assert site.versions() == old
    assert site.invocations() == running
    assert releases_on(site, FIRST) == {old[FIRST]}

    site.release(next_commit())
    playing = site.fleet.start_play("site", site.groups)
    wait_until(
        lambda: f".incoming-{new}" in releases_on(site, AWAY),
        within=900,
        what="packages are being installed there",
        every=0.2,
    )
    site.fleet.ssh(AWAY, "pkill -KILL -u deployer sshd")
    lost = playing.wait()
    assert lost.exit_code != 0
    assert lost.unreachable == {AWAY}
    must_have_stopped(lost, SMALL, f"{AWAY} was left in the middle")
    assert releases_on(site, SMALL) == {old[SMALL]}
    site.must_serve(*site.brokers)

    site.fleet.ssh(SMALL, "head -c $(($(stat -f -c '%a*%S' /opt)-20000000)) /dev/zero > /opt/much")
    full = site.play("site")
    assert f"{SMALL} cannot be installed yet, and nothing was changed" in full.output
    assert "MB free, and the release needs about" in full.output
    assert full.changed == []
    assert site.versions() == {**old, FIRST: new}
    assert releases_on(site, SMALL) == {old[SMALL]}
    site.must_serve(*site.brokers)

    site.fleet.ssh(SMALL, "rm /opt/much")
    # What the lost run had begun there may still be going on; the next one waits for it.
    site.play("site").must_succeed()
    assert set(site.versions().values()) == {new}
    assert site.play("site").must_succeed().changed == []


def test_zookeeper_is_lost_and_restored_from_a_backup(site: Site) -> None:
    site.play("backup").must_succeed()
    folder = site.fleet.inventory(site.groups).parent
    (backup,) = (folder / "backups").iterdir()
    assert {each.name for each in backup.iterdir()} == {"zookeeper.json", "controller.tar"}
    with tarfile.open(backup / "controller.tar") as tar:
        assert {"authority/ca.pem", "secrets/zookeeper-secret"} <= set(tar.getnames())

    data = "/var/lib/penstock/zookeeper"
    lose = f"systemctl stop penstock-zookeeper && find {data} -mindepth 1 -delete"
    site.fleet.ssh(FIRST, f"{lose} && systemctl start penstock-zookeeper")
    site.play("restore", {"penstock_restore_from": str(backup)}).must_succeed()
    assert nobody_is_at_it(site)
    site.must_serve(*site.brokers)
    assert site.play("site").must_succeed().changed == []


def test_what_somebody_needs_who_is_to_help(site: Site) -> None:
    site.play("support_bundle").must_succeed()
    folder = site.fleet.inventory(site.groups).parent
    secret = (folder / "secrets/zookeeper-secret").read_text().strip()
    with tarfile.open(folder / "support.tar.gz") as tar:
        said = {
            Path(each.name).stem: tar.extractfile(each).read().decode()  # type: ignore[union-attr]
            for each in tar.getmembers()
            if each.isfile()
        }
    assert set(said) == set(site.fleet.hosts)
    versions = site.versions()
    for host, text in said.items():
        assert f"penstock {versions[host]}\n" in text
        assert "penstock_broker_" in text  # of /metrics, behind its lock
        assert "journalctl --no-pager --unit penstock-agent.service" in text
        assert secret not in text
        assert "PRIVATE KEY" not in text


def test_a_host_retires_and_every_line_has_arrived_once(site: Site) -> None:
    site.write_no_more(AWAY)
    site.play("retire_host", {"penstock_retired_host": AWAY}).must_succeed()
    assert nobody_is_at_it(site)
    assert site.fleet.ask(AWAY, "systemctl is-active penstock-agent").stdout != "active\n"
    site.groups["penstock_agent"].remove(AWAY)
    site.write_no_more(FIRST, SMALL)
    site.must_have_arrived()


def test_nothing_is_left(site: Site) -> None:
    shop = "/var/log/shop"
    site.fleet.ssh(SMALL, f"mkdir -m 750 {shop} && install -m 600 /dev/null {shop}/shop.log")
    rights = f"find {shop} -printf '%m %p\\n' && python3 -c '{_ACLS}' {shop}"
    before = site.fleet.ssh(SMALL, rights)
    team = site.fleet.directory / "team.yml"
    team.write_text(_TEAM.format(host=SMALL, logs=shop))
    site.play(str(team)).must_succeed()
    assert site.fleet.ssh(SMALL, rights) != before
    everything = {"penstock_uninstall": "all", "penstock_uninstall_data": True}
    site.play("uninstall", everything).must_succeed()
    looks = (
        "find / -xdev -iname '*penstock*' ! -path '/proc/*' ! -path '/sys/*' ! -path '/home/*';"
        " find /opt /run -iname '*penstock*';"
        " systemctl list-units --all --plain --no-legend 'penstock*';"
        " systemctl list-unit-files --no-legend 'penstock*'; getent passwd | grep penstock;"
        " getent group | grep penstock; pgrep -af penstock | grep -v pgrep; true"
    )
    for host in site.fleet.hosts:
        assert site.fleet.ssh(host, looks) == ""
    assert site.fleet.ssh(SMALL, rights) == before


def must_have_stopped(played: Played, host: str, why: str) -> None:
    """There, with that in what the operator is told, and with what to do next."""
    assert played.exit_code != 0
    failed = played.of("failed", host)
    told = [each.message for each in failed if each.task == "Report what to do next"]
    assert len(told) == 1, played.output[-4000:]
    assert told[0].startswith(f"Stopped at {host}: ")
    assert why in told[0]
    assert "run the same playbook again" in told[0]


def set_connections(site: Site, number: int) -> None:
    """In the inventory."""
    made: dict[str, Any] = {"limits": {"connections": number}}
    site.groups["all"]["vars"]["penstock_broker_config"] = made


def has_connections(site: Site, number: int) -> bool:
    asked = f"grep -q 'connections: {number}' /etc/penstock/broker.yaml"
    return all(site.fleet.ask(host, asked).exit_code == 0 for host in site.brokers)


def configurations(site: Site) -> dict[str, str]:
    """Of every host, by the files' sums."""
    asked = "sha256sum /etc/penstock/*.yaml /etc/systemd/system/penstock-*"
    return {host: site.fleet.ask(host, f"{asked} 2>/dev/null").stdout for host in site.fleet.hosts}


def releases_on(site: Site, host: str) -> set[str]:
    return set(site.fleet.ssh(host, "ls -A /opt/penstock/releases").split())


def nobody_is_at_it(site: Site) -> bool:
    return site.fleet.ask(FIRST, f"test -e {LOCK}").exit_code != 0


def wait_for(playing: Playing, task: str, host: str) -> None:
    """Until it has come to that."""

    def done() -> bool:
        assert playing.process.poll() is None, playing.output[-4000:]
        return any(each.task.endswith(task) and each.host == host for each in playing.tasks)

    wait_until(done, within=900, what=f"{task}, on {host}", every=0.2)
