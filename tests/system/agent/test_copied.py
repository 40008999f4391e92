"""A data directory that was copied to a second host, as with the image of a machine."""

import shutil
import time

from tests.system.agent.incarnations import Incarnation, check_one_partition
from tests.system.agent.site import Site, stop


def test_both_hosts_lines_arrive(site: Site) -> None:
    """The copy goes on where the original was, under another id, with sources of its own; what
    was under way is the original's to send."""
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    a = Incarnation("a")
    with path.open("ab") as file:
        file.write(a.append(b"".join(a.line(number) for number in range(50))))
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
    first, second = site.agent(one), site.agent(one)
    with first:
        topic.wait_for_count(50)
        # What comes next cannot be acknowledged.
        site.server.process.kill()
        with path.open("ab") as file:
            file.write(a.append(b"".join(a.line(number) for number in range(50, 100))))
        time.sleep(1.0)
        first.kill()
    shutil.copytree(first.data_dir, second.data_dir, symlinks=True)
    site.server.start()
    with path.open("ab") as file:
        file.write(a.append(b"".join(a.line(number) for number in range(100, 150))))

    with second:
        topic.wait_for(lambda: "a 149 " in topic.messages, within=20, what="the copy's lines")
        assert second.said("cop"), "the copy does not say that it is one"
        stop(second)
    of_copy = [event for event in topic.read_to_end().events if event.host == second.host]
    numbers = [int(event.value["message"].split()[1]) for event in of_copy]
    # It begins where the original's journal stood: after what was acknowledged, or under way.
    assert numbers == list(range(numbers[0], 150))
    assert 50 <= numbers[0] <= 100
    assert not first.said("copy")

    with first:
        topic.wait_for(
            lambda: sum(event.host == first.host for event in topic.events) == 150,
            within=20,
            what="the original's lines",
        )
        stop(first)
    check_one_partition(topic.read_to_end().events)
    of_first = [event for event in topic.events if event.host == first.host]
    assert [event.value["message"] for event in of_first] == [f"a {n} " for n in range(150)]
    assert len({event.source for event in of_first}) == 1
    assert {event.source for event in of_first}.isdisjoint(event.source for event in of_copy)
    accounts = site.accounts(topic)
    assert accounts[of_first[0].source].first == 0
    assert accounts[of_copy[0].source].first == of_copy[0].position
    assert {account.end for account in accounts.values()} == {len(a.data)}
    assert len(site.ledger().agents) == 2
