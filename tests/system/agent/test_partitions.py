"""Which partition lines go to: the agent's own, the file's, or that of a field's value."""

import json
from collections import defaultdict

from aiokafka.partitioner import murmur2

from tests.system.agent.events import json_input, typed_topic
from tests.system.agent.incarnations import Incarnation, check_one_partition
from tests.system.agent.site import Site, stop

PARTITIONS = 8


def test_by_source(site: Site) -> None:
    """Files are spread, each of them is in order."""
    topic = site.topic(site.new_topic(partitions=PARTITIONS))
    files = [Incarnation(f"file{number}-") for number in range(20)]
    for each in files:
        lines = b"".join(each.line(number) for number in range(50))
        (site.logs / f"{each.name}.log").write_bytes(each.append(lines))
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name, "partition_by": "source"}
    with site.agent(one) as agent:
        topic.wait_for_count(1_000)
        stop(agent)
    site.check(topic, files)
    assert len({event.partition for event in topic.events}) > 2


def test_by_field(site: Site) -> None:
    """Where Kafka's own clients would put the key; nothing is lost, and the ledger adds up."""
    name = typed_topic(site, partitions=PARTITIONS)
    topic = site.topic(name)
    lines = [json.dumps({"message": str(at), "user": f"user{at % 37}"}) for at in range(1_000)]
    path = site.logs / "a.json"
    path.write_text("".join(f"{line}\n" for line in lines))
    one = {**json_input(name, str(path)), "partition_by": "field:user"}
    del one["time"]
    with site.agent(one) as agent:
        topic.wait_for_count(1_000)
        stop(agent)
    in_order: dict[int, list[int]] = defaultdict(list)
    for event in sorted(topic.events):
        wanted = (murmur2(event.value["user"].encode()) & 0x7FFFFFFF) % PARTITIONS
        assert event.partition == wanted
        in_order[event.partition].append(event.seq)
    assert len(in_order) > 2
    assert all(seqs == sorted(seqs) for seqs in in_order.values())
    assert sorted(event.seq for event in topic.events) == list(range(1_000))
    (account,) = site.accounts(topic).values()
    assert (account.end, account.lines) == (path.stat().st_size, 1_000)


def test_several_agents_share_a_topic(site: Site) -> None:
    """Each has a partition for itself, as far as they are spread; together they lose nothing."""
    topic = site.topic(site.new_topic(partitions=PARTITIONS))
    files, agents = [], []
    for number in range(2):
        each = Incarnation(f"host{number}-")
        lines = b"".join(each.line(at) for at in range(100))
        path = site.logs / f"{each.name}.log"
        path.write_bytes(each.append(lines))
        files.append(each)
        agents.append(site.agent({"paths": [str(path)], "topic": topic.name}))
    for agent in agents:
        agent.spawn()
    topic.wait_for_count(200)
    stop(*agents)
    site.check(topic, files)
    check_one_partition(topic.events)
    assert len(site.ledger().agents) == 2
