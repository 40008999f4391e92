"""`python -m bench.agents_by_ansible`: the cost of an Ansible run over many agents' hosts.

Hosts are directories that Ansible reaches through local connections (simulated_hosts.py). The
figures include the modules' work on the hosts and exclude ssh. The playbook installs the first
host; the others are copies of it, with the same host name in their configuration. The playbook
then runs twice over all of them: without a change, and with one more input.
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
    parser.add_argument("--only-unchanged", action="store_true", help="skip the second run")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="agents-") as directory,
        simulated_hosts(Path(directory), options.hosts, forks=options.forks) as hosts,
    ):
        hosts.make_release("1.0.0", checks=False)
        hosts.write_inventory(penstock_agent_inputs=INPUTS, penstock_agent_host="web")
        waves = {"penstock_agents_waves": ["100%"]}
        print_run("one empty host", hosts.play("agents", "--limit", hosts.names[0], **waves))
        for name in hosts.names[1:]:
            copy(hosts, name)
        print_run(f"{options.hosts} hosts, no change", hosts.play("agents", **waves))
        if not options.only_unchanged:
            second_play = hosts.play("agents", **waves, penstock_agent_inputs=MORE)
            print_run(f"{options.hosts} hosts, one more input", second_play)


def copy(hosts: SimulatedHosts, name: str) -> None:
    for folder in ("etc", "opt", "units"):
        source = hosts.host(hosts.names[0]) / folder
        shutil.copytree(source, hosts.host(name) / folder, symlinks=True)
    systemctl = str(hosts.host(name) / "bin/systemctl")
    for arguments in (["enable"], ["restart"]):
        subprocess.run([systemctl, *arguments], check=True)


def print_run(label: str, played: Played) -> None:
    if played.code:
        raise SystemExit(played.said[-4000:])
    print(
        f"{label}: {played.seconds:.1f} s, {played.processor_seconds:.1f} s of processor time, "
        f"{statistics.median_low(played.ok.values())} tasks a host, "
        f"{sum(played.changed.values())} changes",
        flush=True,
    )


if __name__ == "__main__":
    main()
