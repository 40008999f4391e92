"""A thousand partitions with three replicas: creation, the loss of a broker, and its return.

A killed broker counts as alive until its session ends: up to 18 s with Penstock's defaults, 9 s
with Apache Kafka's. So there are two figures: when the others count it as gone, and when every
partition has another leader. Both come from the metadata of the brokers.
"""

import time
from functools import partial

from bench.contents.cluster_topics import (
    EVERY,
    cluster_metadata,
    create,
    delete,
    in_sync,
    new_name,
    seconds_until,
)
from bench.figures.measurement import Figure, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.requests import AnswerError

_PATIENCE = 120.0
_CREATED = Figure("seconds until created, all in sync", 2)
_STOPPED = Figure("seconds for a clean stop", 2)
_BACK = Figure("seconds from start to in sync, after a clean stop", 2)
_LED = Figure("seconds from SIGKILL until all are led", 2)
_GONE = Figure("seconds from SIGKILL until it counts as gone", 2)
_ELECTED = Figure("seconds from gone until all are led", 2)
_BACK_AGAIN = Figure("seconds from start to in sync, after SIGKILL", 2)


def _run(context: CaseContext, *, controller: bool) -> Sample:
    name = new_name()
    creation_seconds = create(context.cluster, name, context.scale.partitions, {})
    try:
        return {_CREATED: creation_seconds, **_without_one(context, name, controller=controller)}
    finally:
        delete(context.cluster, name)


def _without_one(context: CaseContext, topic: str, *, controller: bool) -> Sample:
    cluster, partitions = context.cluster, context.scale.partitions
    controller_id = cluster.controller
    broker_id = next(node for node in cluster.members if (node == controller_id) is controller)
    member = cluster.members[broker_id]

    def start() -> float:
        member.spawn()
        members = cluster.members.values()
        return seconds_until(lambda: in_sync(members, topic, partitions), "the broker is back")

    sample: dict[Figure, float] = {}
    try:
        if not controller:
            start_time = time.perf_counter()
            member.stop()
            sample[_STOPPED] = time.perf_counter() - start_time
            sample[_BACK] = start()
        detection_seconds, leader_seconds = _killed(context, topic, broker_id)
        sample |= {
            _LED: leader_seconds,
            _GONE: detection_seconds,
            _ELECTED: leader_seconds - detection_seconds,
        }
        sample[_BACK_AGAIN] = start()
    finally:
        if not member.process.alive:
            member.start()
    return sample


def _killed(context: CaseContext, topic: str, killed_id: int) -> tuple[float, float]:
    """Seconds until every other broker counts it as gone, and until all report new leaders."""
    cluster = context.cluster
    other_members = {node: member for node, member in cluster.members.items() if node != killed_id}
    cluster.members[killed_id].kill()
    start_time = time.perf_counter()
    detection_seconds: float | None = None
    while True:
        answers = [cluster_metadata(member, topic) for member in other_members.values()]
        elapsed = time.perf_counter() - start_time
        if detection_seconds is None and all(
            metadata is not None and killed_id not in metadata.brokers for metadata in answers
        ):
            detection_seconds = elapsed
        if detection_seconds is not None and all(
            metadata is not None
            and len(metadata.partitions) == context.scale.partitions
            and all(partition.leader in other_members for partition in metadata.partitions.values())
            for metadata in answers
        ):
            return detection_seconds, elapsed
        if elapsed > _PATIENCE:
            raise AnswerError(f"partitions without a leader {_PATIENCE:g} s after SIGKILL")
        time.sleep(EVERY)


PROFILE = Profile(
    "cluster-partitions",
    "a topic of 1,000 partitions, three replicas each: created, failed over, restarted",
    (
        Case("a broker", partial(_run, controller=False)),
        Case("the controller", partial(_run, controller=True)),
    ),
)
