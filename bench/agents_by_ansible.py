"""What it costs to go through many agents' hosts by Ansible: `python -m bench.agents_by_ansible`.

Hosts are directories that Ansible reaches by local connections (simulated_hosts.py), so the
figures have in them what the hosts themselves would do, module by module, and lack ssh. The first
host is installed by the playbook; the others are copies of it, and have the same name in their
configuration. Then all of them are gone through twice: with nothing to do, and with one input more.
"""

import argparse
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from harness.hosts.simulated_hosts import Played, SimulatedHosts, simulated_hosts

INPUTS = [{"paths": ["/var/log/syslog"], "topic": "syslog"}]
MORE = [*INPUTS, {"paths": ["/var/log/shop/*.log"], "topic": "clicks"}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--forks", type=int, default=50)
    parser.add_argument("--only-unchanged", action="store_true", help="one run, not two")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="agents-") as directory,
        simulated_hosts(Path(directory), given.hosts, forks=given.forks) as hosts,
    ):
        hosts.make_release("1.0.0", checks=False)
        hosts.write_inventory(penstock_agent_inputs=INPUTS, penstock_agent_host="web")
        waves = {"penstock_agents_waves": ["100%"]}
        tell("one host, nothing there", hosts.play("agents", "--limit", hosts.names[0], **waves))
        for name in hosts.names[1:]:
            copy(hosts, name)
        tell(f"{given.hosts} hosts, nothing to do", hosts.play("agents", **waves))
        if not given.only_unchanged:
            more = hosts.play("agents", **waves, penstock_agent_inputs=MORE)
            tell(f"{given.hosts} hosts, one input more", more)


def copy(hosts: SimulatedHosts, name: str) -> None:
    for each in ("etc", "opt", "units"):
        source = hosts.host(hosts.names[0]) / each
        shutil.copytree(source, hosts.host(name) / each, symlinks=True)
    systemctl = str(hosts.host(name) / "bin/systemctl")
    for words in (["enable"], ["restart"]):
        subprocess.run([systemctl, *words], check=True)


def tell(what: str, played: Played) -> None:
    if played.code:
        raise SystemExit(played.said[-4000:])
    print(
        f"{what}: {played.seconds:.1f} s, {played.processor_seconds:.1f} s of processor time, "
        f"{statistics.median_low(played.ok.values())} tasks a host, "
        f"{sum(played.changed.values())} changes",
        flush=True,
    )


if __name__ == "__main__":
    main()
