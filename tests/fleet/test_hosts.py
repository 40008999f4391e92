"""What the harness promises of its hosts: tests of the collection rely on it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hosts.hosts import CONTROLLER, Host, HostFailed, Hosts, why_no_hosts
from harness.processes.waiting import wait_until
from tests.fleet.releases import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.not_quick("it boots hosts"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts()),
]

# Tells where its hosts are, and goes on until it is killed.
HOLDER = """
import json, signal, sys
from pathlib import Path
from harness.hosts.hosts.hosts import Host, Hosts
with Hosts(Path(sys.argv[1]), {"alone": Host()}) as hosts:
    hosts.ssh("alone", "systemd-run --quiet sleep 1000")
    print(json.dumps([hosts._first, hosts._outer.pid, hosts._group]), flush=True)
    signal.pause()
"""
SMALL = 1 << 20


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    wanted = {"one": Host(small={"/srv": SMALL}), "two": Host()}
    with Hosts(tmp_path_factory.mktemp("hosts"), wanted) as hosts:
        yield hosts


def test_a_host_has_systemd_and_a_journal_and_nothing_failed(hosts: Hosts) -> None:
    assert hosts.ssh("one", "cat /proc/1/comm").strip() == "systemd"
    assert hosts.ssh("one", "systemctl is-system-running").strip() == "running"
    hosts.ssh("one", "systemd-run --quiet --unit=said echo here it is")
    wait_until(
        lambda: "here it is" in hosts.ssh("one", "journalctl --unit=said --output=cat"),
        within=60,
        what="the journal has it",
        every=0.2,
    )


def test_hosts_know_each_other_and_the_controller(hosts: Hosts) -> None:
    assert hosts.ssh("one", "hostname").strip() == "one"
    hosts.ssh("two", "python3 -c \"import socket; socket.create_connection(('one', 22), 60)\"")
    assert hosts.ssh("two", "getent hosts controller").split() == [CONTROLLER, "controller"]


def test_they_see_nothing_of_the_machines_network(hosts: Hosts) -> None:
    links = [line.split()[1] for line in hosts.ssh("one", "ip -o link").splitlines()]
    assert [link.rstrip(":").partition("@")[0] for link in links] == ["lo", "host0"]
    assert hosts.ask("one", "ip route get 192.0.2.1").exit_code != 0
    outside = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    assert "br0:" not in outside.stdout
    mounts = Path("/proc/self/mounts").read_text()
    assert str(hosts.directory) not in mounts


def test_files_are_written_and_read_from_below(hosts: Hosts) -> None:
    hosts.write("one", "/etc/said/so.txt", "what it says\n", mode=0o640)
    assert hosts.ssh("one", "stat -c %a /etc/said/so.txt; cat /etc/said/so.txt").split("\n")[
        :2
    ] == [
        "640",
        "what it says",
    ]
    hosts.ssh("one", "echo an answer > /etc/said/answer")
    assert hosts.read("one", "/etc/said/answer") == b"an answer\n"
    with pytest.raises(HostFailed):
        hosts.read("two", "/etc/said/so.txt")


def test_a_small_disk_is_full_soon(hosts: Hosts) -> None:
    ended = hosts.ask("one", f"head -c {2 * SMALL} /dev/zero > /srv/much")
    assert "No space left" in ended.stderr
    hosts.ssh("one", "rm /srv/much; head -c 1000 /dev/zero > /srv/little")


def test_a_command_that_fails_says_where_and_how(hosts: Hosts) -> None:
    with pytest.raises(HostFailed, match=r"two: .*exit code 3[\s\S]*it is gone"):
        hosts.ssh("two", "echo it is gone >&2; exit 3")


def test_a_cable_that_is_out_stops_everything_and_closes_nothing(hosts: Hosts) -> None:
    listens = (
        "import socket; s = socket.create_server(('', 7)); c = s.accept()[0]; "
        "c.sendall(c.recv(9)); c.recv(9)"
    )
    hosts.ssh("two", f'systemd-run --quiet --unit=echoes python3 -c "{listens}"')
    asks = (
        "import socket, time; c = socket.create_connection(('two', 7), 300); "
        "open('/run/is-there', 'w'); time.sleep(0.1); "
        "[time.sleep(0.1) for n in range(3000) if not __import__('os').path.exists('/run/go')]; "
        "c.sendall(b'hello'); open('/run/answer', 'wb').write(c.recv(9))"
    )
    wait_until(
        lambda: hosts.ask("two", "ss -ltn | grep -q ':7 '").exit_code == 0,
        within=60,
        what="it listens",
    )
    hosts.ssh("one", f'systemd-run --quiet --unit=asks python3 -c "{asks}"')
    wait_until(
        lambda: hosts.ask("one", "test -e /run/is-there").exit_code == 0,
        within=60,
        what="it is connected",
    )
    hosts.cut("two")
    hosts.ssh("one", "touch /run/go")
    assert hosts.ssh("one", "sleep 2; systemctl is-active asks").strip() == "active"
    assert hosts.ask("one", "timeout 2 bash -c 'echo > /dev/tcp/two/22'").exit_code != 0
    hosts.heal("two")
    wait_until(
        lambda: hosts.ask("one", "cat /run/answer").stdout == "hello",
        within=120,
        what="the answer is there, over the same connection",
    )


def test_a_host_without_power_is_silent_and_boots_again_with_its_files(hosts: Hosts) -> None:
    hosts.write("two", "/etc/before", "")
    hosts.kill("two")
    assert not hosts.alive("two")
    # Nobody answers there: what is found out first is that, or that nobody is there to be asked.
    silence = hosts.ask("one", "timeout 2 bash -c 'echo > /dev/tcp/two/22'")
    assert silence.exit_code
    assert "refused" not in silence.stderr
    hosts.start("two")
    assert hosts.ssh("two", "ls /etc/before").strip() == "/etc/before"
    hosts.ssh("one", "timeout 60 bash -c 'echo > /dev/tcp/two/22'")


def test_nothing_is_left_when_whoever_made_them_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "hosts")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    first, outer, group = json.loads(holder.stdout.readline())
    namespace = Path(f"/proc/{first}/ns/net").readlink()
    assert _processes_in(namespace)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    wait_until(lambda: not Path(f"/proc/{outer}").exists(), within=60, what="the shell has ended")
    assert not _processes_in(namespace)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    look = f"mount -t cgroup2 none {tmp_path} && ls {tmp_path}"
    groups = subprocess.run(
        ["unshare", "--mount", "sh", "-c", look], capture_output=True, text=True, check=True
    )
    assert group not in groups.stdout


def _processes_in(namespace: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").readlink() == namespace:
                found.append(int(process.name))
        except OSError:
            continue
    return found
