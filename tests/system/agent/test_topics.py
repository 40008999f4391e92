"""Topics that are not as an agent would have them, and a registry that comes late."""

import random
from pathlib import Path

from client import admin
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.made_anew import create_again
from tests.system.agent.incarnations import Incarnation, check_one_partition
from tests.system.agent.site import Site, stop


def incompressible(chance: random.Random, size: int) -> str:
    return f"{chance.getrandbits(8 * size):x}"[:size]


def test_a_topic_for_small_batches(site: Site) -> None:
    """Batches are made to fit; a line that fits into none is a dead letter."""
    name = site.new_topic(configs={"max.message.bytes": "10000"})
    topic, dead = site.topic(name), site.topic(f"{name}.dead")
    chance = random.Random(6)
    path = site.logs / "a.log"
    lines = [f"a {at} {incompressible(chance, 300)}" for at in range(1_000)]
    lines[500] = f"a 500 {incompressible(chance, 50_000)}"
    path.write_text("".join(f"{line}\n" for line in lines))
    with site.agent({"paths": [str(path)], "topic": name}) as agent:
        topic.wait_for_count(999)
        dead.wait_for_count(1)
        # It becomes smaller still while all runs.
        admin.alter_topic(site.brokers, name, {"max.message.bytes": "3000"})
        more = [f"a {at} {incompressible(chance, 300)}" for at in range(1_000, 1_500)]
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in more))
        topic.wait_for_count(1_499)
        stop(agent)
    check_one_partition(topic.read_to_end().events)
    assert topic.messages == lines[:500] + lines[501:] + more
    (letter,) = dead.read_to_end().events
    start = sum(len(line) + 1 for line in lines[:500])
    assert letter.value["offset"] == start
    assert (lines[500] + "\n").encode().startswith(letter.value["raw"])
    assert letter.value["size"] in {len(lines[500]), len(lines[500]) + 1}
    (account,) = site.accounts(topic).values()
    assert (account.end, account.all_lines) == (path.stat().st_size, 1_500)
    assert account.count("dead_lettered") == 1


def test_a_topic_that_does_not_exist(site: Site) -> None:
    """The broker creates it when it is asked for, and so it is."""
    name = f"{site.new_topic()}-new"
    a = Incarnation("a")
    (site.logs / "a.log").write_bytes(a.append(a.line(0) + a.line(1)))
    with site.agent({"paths": [f"{site.logs}/*.log"], "topic": name}) as agent:
        wait_until(
            lambda: name in site.brokers.refresh(None).topics, within=20, what="it is created"
        )
        topic = site.topic(name)
        topic.wait_for_count(2)
        stop(agent)
    site.check(topic, [a])


def test_a_topic_that_is_made_anew(site: Site) -> None:
    """It is said; what comes goes to the new one."""
    name = site.new_topic()
    a = Incarnation("a")
    path = site.logs / "a.log"
    path.write_bytes(a.append(a.line(0)))
    with site.agent({"paths": [str(path)], "topic": name}) as agent:
        site.topic(name).wait_for_count(1)
        former = site.brokers.topic(name)
        admin.delete_topic(site.brokers, name)
        create_again(site.brokers, name, partitions=2, after=former)
        with path.open("ab") as file:
            file.write(a.append(a.line(1)))
        topic = site.topic(name)
        topic.wait_for_count(1, within=30)
        stop(agent)
    assert topic.read_to_end().messages == ["a 1 "]
    assert topic.events[0].seq == 1
    assert agent.said(name)


def test_the_registry_comes_late(running_broker: BrokerProcess, tmp_path: Path) -> None:
    """An agent that never met it waits for it, and says for what."""
    settings = {"topic": f"_schemas_{random.SystemRandom().getrandbits(40):x}"}
    registry = RegistryProcess(
        tmp_path / "registry", brokers=running_broker.bootstrap, settings=settings
    )
    directory = tmp_path / "site"
    directory.mkdir()
    try:
        with Site(running_broker, registry.url, directory) as site:
            topic = site.topic(site.new_topic())
            a = Incarnation("a")
            (site.logs / "a.log").write_bytes(a.append(a.line(0)))
            agent = site.agent({"paths": [f"{site.logs}/*.log"], "topic": topic.name})
            agent.spawn()
            wait_until(
                lambda: bool(agent.said(registry.address)), within=20, what="says what it waits for"
            )
            assert agent.alive
            registry.start()
            topic.wait_for_count(1, within=30)
            stop(agent)
            topic.read_to_end()
            check_one_partition(topic.events)
    finally:
        registry.stop()
