"""A cluster on hosts, installed by the playbook `site`: written to all the time on every host, and
asked what became of the lines, in two ways: what the audit says, and what lies in the topic.

    with Fleet(directory, {name: Host(java=True) for name in ("dc1-a", "dc1-b")}) as fleet:
        site = Site(fleet, brokers=["dc1-a", "dc1-b"], zookeepers=["dc1-a"], audit="dc1-a")
        site.converge().must_succeed()

Who writes on a host is a program of systemd's there that knows nothing of Penstock. What it has
written is in its files, which are renamed now and then and stay: they are the truth.
"""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.hosts.hosts import Ended
from harness.processes.waiting import wait_until
from tests.fleet import releases
from tests.fleet.fleet import Fleet, Played

TOPIC: Final = "lines"
LOGS: Final = "/var/log/app"
LOCK: Final = "/var/lib/penstock/roll/roll.json"  # on a cluster's first broker
_ARRIVES_WITHIN: Final = 300.0

# A new file after so many lines ($1), in the way of logrotate; 0: always the same. It goes on where
# it was, and so does the host after a loss of power.
_WRITER: Final = f"""
mkdir -p {LOGS}; number=$(cat {LOGS}/*.log 2>/dev/null | wc -l)
while true; do
    echo "$(hostname) line $number" >> {LOGS}/app.log
    number=$((number + 1))
    [ $1 -ne 0 ] && [ $((number % $1)) -eq 0 ] && mv {LOGS}/app.log {LOGS}/app-$((number / $1)).log
    sleep 0.05
done
"""
# In a process of its own, where the hosts are seen.
_ASKS: Final = """
import json, re, sys
from confluent_kafka import Consumer, TopicPartition
given = json.loads(sys.argv[1])
consumer = Consumer({"group.id": "nobody", "enable.auto.commit": False, **given["config"]})
known = consumer.list_topics(timeout=60)
"""
# All values of a topic, as they are.
_READER: Final = f"""{_ASKS}
found = known.topics[given["topic"]].partitions
ends = {{each: consumer.get_watermark_offsets(TopicPartition(given["topic"], each), 60)
        for each in found}}
consumer.assign([TopicPartition(given["topic"], each, ends[each][0]) for each in found])
left = {{each for each, (first, end) in ends.items() if first < end}}
lines = []
while left:
    for message in consumer.consume(1000, 5):
        if message.error():
            sys.exit(str(message.error()))
        lines += [each.decode() for each in re.findall(rb"[a-z0-9-]+ line [0-9]+", message.value())]
        if message.offset() + 1 >= ends[message.partition()][1]:
            left.discard(message.partition())
print(json.dumps(lines))
"""
# Who has replicas: the broker of each, of all topics.
_COUNTER: Final = f"""{_ASKS}
parts = [each for topic in known.topics.values() for each in topic.partitions.values()]
print(json.dumps([broker for each in parts for broker in each.replicas]))
"""


class Site:
    """On the hosts of a fleet, all of which have agents."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        zookeepers: Sequence[str],
        brokers: Sequence[str],
        registries: Sequence[str],
        audit: str = "",
        agents: Sequence[str] | None = None,
        cluster: str = "dc1",
    ) -> None:
        """Without an audit of its own, another site's reads its ledger. `agents`: else on all."""
        self.fleet = fleet
        self.brokers = list(brokers)
        self.audit = audit
        self.cluster = cluster
        self.writers = list(fleet.hosts if agents is None else agents)
        self.groups: dict[str, Any] = {
            "all": {
                "vars": {
                    "penstock_cluster": cluster,
                    "penstock_tls": True,
                    "penstock_agent_inputs": [{"topic": TOPIC, "paths": [f"{LOGS}/*.log"]}],
                }
            },
            "penstock_zookeeper": {
                "hosts": {
                    name: {"penstock_zookeeper_id": number + 1}
                    for number, name in enumerate(zookeepers)
                }
            },
            "penstock_broker": {
                "hosts": {
                    name: {"penstock_broker_id": number + 1} for number, name in enumerate(brokers)
                }
            },
            "penstock_registry": registries,
            "penstock_audit": [audit] if audit else [],
            "penstock_agent": list(self.writers),
        }

    # By Ansible

    def release(
        self, commit: str | None = None, *, spark: bool = False, broken: bool = False
    ) -> str:
        """Puts one of the working tree, or another commit, where the playbook looks for it, and
        names it in the inventory; returns its version."""
        release = releases.made(commit or releases.working_tree(), spark=spark)
        folder = self.fleet.inventory(self.groups).parent / "release"
        release.copy_to(folder, broken=broken)
        self.groups["all"]["vars"]["penstock_release"] = release.version
        return release.version

    def has_broker(self, host: str, number: int) -> None:
        """In the inventory."""
        self.brokers.append(host)
        self.groups["penstock_broker"]["hosts"][host] = {"penstock_broker_id": number}

    def has_no_broker(self, host: str) -> None:
        self.brokers.remove(host)
        del self.groups["penstock_broker"]["hosts"][host]

    def play(self, playbook: str, more: Mapping[str, Any] | None = None, **how: Any) -> Played:
        return self.fleet.play(playbook, self.groups, more, **how)

    def versions(self) -> dict[str, str]:
        """Of the release in use on each host."""
        asked = "/opt/penstock/current/bin/penstock --version"
        return {
            host: self.fleet.ssh(host, asked).split()[-1] for host in self.groups["penstock_agent"]
        }

    def invocations(self) -> dict[tuple[str, str], str]:
        """Of every program on every host, which start of it this is."""
        asked = (
            "systemctl list-units 'penstock-*.service' --state=active --plain --no-legend"
            " | while read unit rest; do"
            " echo $unit $(systemctl show --value --property=InvocationID $unit); done"
        )
        return {
            (host, unit): invocation
            for host in self.fleet.hosts
            for unit, invocation in map(str.split, self.fleet.ssh(host, asked).splitlines())
        }

    # Lines

    def write(self, *hosts: str, lines_a_file: int = 200) -> None:
        """From now on, on these hosts, or on every one with an agent. Where agents are away for
        long, files should not be renamed (lines_a_file=0): nobody could say then what came and
        went."""
        for host in hosts or self.writers:
            self.fleet.write(
                host, "/usr/local/bin/write-lines", f"#!/bin/bash{_WRITER}", mode=0o755
            )
            run = "systemd-run --quiet --unit=writes-lines /usr/local/bin/write-lines"
            self.fleet.ssh(host, f"{run} {lines_a_file}")

    def write_no_more(self, *hosts: str) -> None:
        for host in hosts or self.writers:
            self.fleet.ssh(host, "systemctl stop writes-lines")

    def written(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for host in self.writers:
            found.update(self.fleet.ssh(host, f"cat {LOGS}/*.log").splitlines())
        return found

    def landed(self) -> Counter[str]:
        """Each line as often as it lies in the topic."""
        return Counter(self._asked(_READER))

    def must_serve(self, *hosts: str) -> None:
        """A line that is written on each of them from now on is read from the topic, by a foreign
        client: what is there still takes lines, and gives them."""
        wanted = {self.last_line(host) for host in hosts}
        wait_until(
            lambda: wanted <= self.landed().keys(),
            within=_ARRIVES_WITHIN,
            what=f"{', '.join(sorted(wanted))}: in the topic",
            every=2,
        )

    def last_line(self, host: str) -> str:
        """That was written there, just now."""
        return self.fleet.ssh(host, f"sleep 0.5; tail -q -n 1 {LOGS}/*.log | tail -n 1").strip()

    def replicas(self) -> Counter[int]:
        """Of all topics: how many each broker has."""
        return Counter(self._asked(_COUNTER))

    def _asked(self, program: str) -> Any:
        """By a foreign client."""
        authority = self.fleet.inventory(self.groups).parent / "authority"
        certificate = str(authority / f"broker-{self.brokers[0]}.pem")
        config = {
            "bootstrap.servers": ",".join(f"{name}:9092" for name in self.brokers),
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority / "ca.pem"),
            "ssl.certificate.location": certificate,
            "ssl.key.location": certificate,
        }
        given = json.dumps({"topic": TOPIC, "config": config})
        ended = self.fleet.run(sys.executable, "-c", program, given)
        assert ended.exit_code == 0, ended.stderr
        return json.loads(ended.stdout)

    def report(self, topic: str = TOPIC) -> Ended:
        """What the audit says of the lines."""
        tls = "tls: {ca: /etc/penstock/tls/ca.pem, certificate: /etc/penstock/tls/audit.pem}"
        return self.fleet.ask(
            self.audit,
            f"echo '{tls}' > /run/asks.yaml && /opt/penstock/current/bin/penstock report {topic}"
            f" --from {hours_ago(6)} --cluster {self.cluster} --audit https://{self.audit}:8090"
            " --audit-security /run/asks.yaml",
        )

    def must_have_arrived(self) -> Ended:
        """Every line that was written, once: the audit says so, and it is so."""
        said = self.must_be_complete()
        assert self.landed() == self.written()
        return said

    def must_be_complete(self, topic: str = TOPIC, within: float = _ARRIVES_WITHIN) -> Ended:
        """The audit says of a topic that every line has arrived."""
        wait_until(
            lambda: self.report(topic).exit_code == 0,
            within=within,
            what="the audit says that every line has arrived",
            every=2,
        )
        report = self.report(topic)
        assert re.search(rf"^✓ .*  {topic}  ", report.stdout, re.MULTILINE), report.stdout
        return report


def hours_ago(hours: int) -> str:
    """A moment for `penstock report --from`."""
    return time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() - hours * 3600))
