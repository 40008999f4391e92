"""What is done to groups in a run, as lines that a person can read: those of cluster_history that
concern processes and ZooKeeper, and those for members, coordinators and the topic. Pure.

    seed 7
    cluster brokers=3 factor=3 in-sync=2 zookeepers=1 session=4
    begin raw-1
    begin raw-2
    kill-coordinator raw
    pause 2.5
    kill-member raw-1
    start-everywhere

A member is called by its group and a number; the groups that begin are those of the run.
"""

from collections.abc import Sequence
from typing import Final

from tests.cluster_history import script
from tests.cluster_history.script import Action, Script

GROUPS: Final = {
    "raw": "raw",
    "second": "raw",
    "eager": "librdkafka",
    "cooperative": "librdkafka",
    "paper": "paper",
}
"""And by what kind of member they are formed."""
PAPER: Final = "paper"

_OF_BROKERS: Final = (
    *("kill", "stop", "start", "freeze", "thaw", "kill-everywhere", "start-everywhere"),
    *("cut-map", "reset-map", "mend", "pause"),
    *("kill-zookeeper", "start-zookeeper", "freeze-zookeeper", "thaw-zookeeper"),
)
ACTIONS: Final = {
    **{each: script.ACTIONS[each] for each in _OF_BROKERS},
    "begin": ("MEMBER",),
    "leave": ("MEMBER",),  # SIGTERM; nobody waits for it
    "kill-member": ("MEMBER",),
    "freeze-member": ("MEMBER",),
    "thaw-member": ("MEMBER",),
    "kill-coordinator": ("GROUP",),  # whoever is it now
    "stop-coordinator": ("GROUP",),
    "freeze-coordinator": ("GROUP",),
    "thaw-brokers": (),  # all that stand still
    "grow": (),  # the topic gets one more partition; nobody waits for it
}


def parse(text: str) -> Script:
    return script.parse(text, ACTIONS)


def group_of(member: str) -> str:
    return member.rpartition("-")[0]


def groups_of(actions: Sequence[Action]) -> tuple[str, ...]:
    """That have members at some time, of those that hear of a coordinator or not."""
    begun = (group_of(each.words[0]) for each in actions if each.verb == "begin")
    return tuple(dict.fromkeys(begun))
