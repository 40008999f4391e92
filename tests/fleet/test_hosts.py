"""What the harness promises of its hosts: tests of the collection rely on it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hosts.hosts import Host, Hosts, why_no_hosts
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
from harness.hosts.hosts import Host, Hosts
with Hosts(Path(sys.argv[1]), {"alone": Host()}) as hosts:
    hosts.ssh("alone", "systemd-run --quiet sleep 1000")
    print(json.dumps([hosts._first, hosts._outer.pid, hosts._group]), flush=True)
    signal.pause()
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    wanted = {"one": Host(), "two": Host()}
    with Hosts(tmp_path_factory.mktemp("hosts"), wanted) as hosts:
        yield hosts


def test_they_see_nothing_of_the_machines_network(hosts: Hosts) -> None:
    links = [line.split()[1] for line in hosts.ssh("one", "ip -o link").splitlines()]
    assert [link.rstrip(":").partition("@")[0] for link in links] == ["lo", "host0"]
    assert hosts.ask("one", "ip route get 192.0.2.1").exit_code != 0
    outside = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    assert "br0:" not in outside.stdout
    mounts = Path("/proc/self/mounts").read_text()
    assert str(hosts.directory) not in mounts


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
