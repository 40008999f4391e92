"""A thousand partitions of three replicas: created, without a broker, and with it again.

A broker that is killed counts as alive until its session ends: 18 s at most by Penstock's defaults,
9 s by Apache Kafka's. So both are told: when the others count it as gone, and when every partition
has another leader. All of it is read from the metadata that the brokers themselves give.
"""

import time
from functools import partial

from bench.contents.cluster_topics import (
    EVERY,
    create,
    delete,
    in_sync,
    new_name,
    said_by,
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
    created = create(context.cluster, name, context.scale.partitions, {})
    try:
        return {_CREATED: created, **_without_one(context, name, controller=controller)}
    finally:
        delete(context.cluster, name)


def _without_one(context: CaseContext, topic: str, *, controller: bool) -> Sample:
    cluster, partitions = context.cluster, context.scale.partitions
    leads = cluster.controller
    going = next(each for each in cluster.members if (each == leads) is controller)
    member = cluster.members[going]

    def start() -> float:
        member.spawn()
        everybody = cluster.members.values()
        return seconds_until(lambda: in_sync(everybody, topic, partitions), "it is back")

    sample: dict[Figure, float] = {}
    try:
        if not controller:
            began = time.perf_counter()
            member.stop()
            sample[_STOPPED] = time.perf_counter() - began
            sample[_BACK] = start()
        gone, led = _killed(context, topic, going)
        sample |= {_LED: led, _GONE: gone, _ELECTED: led - gone}
        sample[_BACK_AGAIN] = start()
    finally:
        if not member.process.alive:
            member.start()
    return sample


def _killed(context: CaseContext, topic: str, going: int) -> tuple[float, float]:
    """Seconds until none of the others counts it as there, and until all say who leads."""
    cluster = context.cluster
    others = {each: member for each, member in cluster.members.items() if each != going}
    cluster.members[going].kill()
    began = time.perf_counter()
    gone: float | None = None
    while True:
        said = [said_by(member, topic) for member in others.values()]
        now = time.perf_counter() - began
        if gone is None and all(each is not None and going not in each.brokers for each in said):
            gone = now
        if gone is not None and all(
            each is not None
            and len(each.partitions) == context.scale.partitions
            and all(one.leader in others for one in each.partitions.values())
            for each in said
        ):
            return gone, now
        if now > _PATIENCE:
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
