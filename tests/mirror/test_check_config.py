"""`penstock check-config mirror`: what it says of both clusters, and that it changes nothing."""

import json

from client import admin
from client.brokers import Brokers
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess
from harness.server_process import free_ports
from tests.penstock.running import Ended, penstock


def check(mirror: MirrorProcess, *options: str) -> Ended:
    return penstock("check-config", "mirror", str(mirror.config), *options)


def test_what_would_be_done(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    copy, other = f"dc1.{new_topic}", f"{new_topic}-other"
    admin.create_topic(there, new_topic, partitions=3)
    ended = check(mirror, "--online", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    said = json.loads(ended.stdout)
    assert said["topics"] == [
        {
            "topic": new_topic,
            "copy": copy,
            "standing": "copied",
            "would_be": ["created with 3 partitions"],
        }
    ]
    assert copy not in admin.all_topics(here).topics
    # One that is there already, and is somebody's.
    admin.create_topic(there, other, partitions=1)
    admin.create_topic(here, f"dc1.{other}", partitions=1)
    shown = check(mirror)
    assert shown.returncode == 0
    assert f"dc1.{other}  ordinary" in " ".join(shown.stdout.split("\n")).replace("   ", "  ")
    assert "note: no `target.zookeeper`" in shown.stdout


def test_who_does_not_answer_is_a_problem_only_if_he_must(
    mirror: MirrorProcess, source: BrokerProcess
) -> None:
    (port,) = free_ports(1)
    mirror.config.write_text(
        mirror.config.read_text().replace(source.bootstrap, f"127.0.0.1:{port}")
    )
    asked = check(mirror)
    assert asked.returncode == 0
    assert f"note: the clusters are not checked: no broker at 127.0.0.1:{port}" in asked.stdout
    must = check(mirror, "--online")
    assert must.returncode == 1
    assert "problem: the clusters are not checked" in must.stdout
    nobody = check(mirror, "--offline")
    assert nobody.returncode == 0
    assert "not checked" not in nobody.stdout
