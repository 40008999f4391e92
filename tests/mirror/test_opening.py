"""Copies opened, closed again, and left alone for a while; groups that go with them."""

from client import admin
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.group_offsets import committed_offsets
from client.offset_commits import Consumed, commit_offsets
from harness.mirror_process import MirrorProcess
from harness.waiting import wait_until
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import PATIENCE, batches, ends, values, wait_copied, write
from tests.mirror.workers import partition_of


def test_promoted_written_and_demoted_only_without_messages_of_its_own(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    copy = f"dc1.{new_topic}"
    admin.create_topic(there, new_topic, partitions=2)
    write(there, new_topic, values(0, 50))
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    mirror.kill()
    write(there, new_topic, values(50, 10))
    refused = mirror.told("promote", copy)
    assert refused.returncode == 1, refused
    assert "the copy ends at 50, the source at 60" in refused.stderr
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    promoted = mirror.told("promote", copy)
    assert promoted.returncode == 0, promoted
    assert "is open" in promoted.stdout

    def is_ordinary() -> bool:
        topics = (mirror.standing() or {}).get("topics", ())
        return [each["standing"] for each in topics] == ["ordinary"]

    wait_until(is_ordinary, within=PATIENCE, what="the mirror leaves it alone")
    again = mirror.told("demote", copy)
    assert again.returncode == 0, again
    write(there, new_topic, values(60, 5))
    wait_copied(there, here, new_topic, 2)
    assert mirror.told("promote", copy).returncode == 0
    write(here, copy, values(0, 3))
    refused = mirror.told("demote", copy)
    assert refused.returncode == 1
    assert "has 3 messages of its own from offset 65 to 67" in refused.stderr


def test_demoted_where_the_source_has_more_partitions(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    copy = f"dc1.{new_topic}"
    admin.create_topic(there, new_topic, partitions=2)
    write(there, new_topic, values(0, 50))
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    mirror.kill()
    assert mirror.told("promote", copy).returncode == 0
    admin.add_partitions(there, new_topic, 3)
    write(there, new_topic, values(0, 5), 2)
    demoted = mirror.told("demote", copy)
    assert demoted.returncode == 0, demoted
    refused = mirror.told("promote", copy)
    assert refused.returncode == 1, refused
    assert f"{copy}-2: the copy does not have it yet" in refused.stderr
    mirror.start()
    wait_copied(there, here, new_topic, 3)


def test_paused_and_resumed(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    copy = f"dc1.{new_topic}"
    admin.create_topic(there, new_topic, partitions=1)
    mirror.start()
    wait_copied(there, here, new_topic)
    assert mirror.told("pause", copy).returncode == 0
    wait_until(
        lambda: partition_of(mirror, copy).get("stage") == "paused",
        within=PATIENCE,
        what="it is paused",
    )
    write(there, new_topic, values(0, 20))
    shown = mirror.told("status")
    assert "paused" in shown.stdout, shown
    assert ends(here, copy) == {0: 0}
    assert mirror.told("resume", copy).returncode == 0
    wait_copied(there, here, new_topic)


def test_offsets_of_groups_go_along(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    copy, group = f"dc1.{new_topic}", f"group-{new_topic}"
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 40))
    commit_offsets(there, group, {TopicPartition(new_topic, 0): Consumed(25)})
    new_worker(groups={"interval": 0.5}).start()

    def offset() -> int:
        found = committed_offsets(here, [group])[group].get(TopicPartition(copy, 0))
        return -1 if found is None else found.offset

    wait_until(lambda: offset() == 25, within=PATIENCE, what="25 is committed")
    commit_offsets(there, group, {TopicPartition(new_topic, 0): Consumed(40)})
    wait_until(lambda: offset() == 40, within=PATIENCE, what="40 is committed")


def test_a_topic_in_other_names_and_without_some(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    for name in (new_topic, f"{new_topic}-tmp"):
        admin.create_topic(there, name, partitions=1)
        write(there, name, values(0, 5))
    new_worker(prefix="far.", exclude=["*-tmp"]).start()
    wait_until(
        lambda: (
            f"far.{new_topic}" in admin.all_topics(here).topics
            and ends(here, f"far.{new_topic}") == {0: 5}
        ),
        within=PATIENCE,
        what="it is copied",
    )
    assert batches(here, f"far.{new_topic}") == batches(there, new_topic)
    assert f"far.{new_topic}-tmp" not in admin.all_topics(here).topics
