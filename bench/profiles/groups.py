"""Consumer groups: commits, the speed of joins and leaves, and the cost of thousands of members.

Members are connections that do nothing else. Penstock answers a commit once it is durable, in
ZooKeeper; with Apache Kafka it is in the machine's memory.
"""

from functools import partial
from typing import Final

from bench.contents.topics import topic
from bench.figures.measurement import BROKER_CORES, CLIENT_CORES, Figure, Goal, Sample
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.group_members import SHORT_SESSION_MS, Done, Share, group_members
from bench.loads.steady_load import produce_and_wait

_COMMITTED: Final = Figure("partitions/s", more_is_better=True)
_ANSWERED: Final = Figure("answered, p99 ms", 1)
_MEMBERS: Final = Figure("members/s that come and go", more_is_better=True)
_HEARTBEAT: Final = Figure("heartbeat p99, ms", 2)
_BEATS: Final = Figure("heartbeats/s", more_is_better=True)
_PRODUCE: Final = Figure("produce p99 meanwhile, ms", 2)
_BEFORE: Final = Figure("produce p99 without members, ms", 2)
_JOINED: Final = Figure("until all have joined, s", 2)
_SETTLED: Final = Figure("until one more has settled, s", 2)

_REPLACED: Final = Figure("until it is replaced, after its session, s", 2)
_ALONE: Final = Figure("answered without them, p99 ms", 1)

_PARTITIONS: Final = 100
_FEW: Final = 10  # members
_EACH: Final = 10  # partitions per member
_OFTEN: Final = 0.2  # seconds
_COMMITTING: Final = 100  # groups of one
_COMING: Final = 32
_OF_A_GROUP: Final = 100
_EVERY: Final = 3.0  # seconds between two heartbeats of a member
_SOON: Final = 1.0
_PRODUCED: Final = 200  # batches a second


def _groups(count: int, name: str) -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


def _costs(result: Done, meter: Meter) -> Sample:
    return {
        BROKER_CORES: meter.broker_cpu / result.seconds,
        CLIENT_CORES: result.members_cpu / result.seconds,
    }


def _commits(context: CaseContext, *, partitions: int) -> Sample:
    broker = context.broker
    with (
        topic(broker.port, partitions=_PARTITIONS) as name,
        group_members(broker.port) as members,
    ):
        members.do("come", _groups(_COMMITTING, name), 1)
        with Meter(broker.pid) as meter:
            result = members.do("commit", context.scale.seconds, name, partitions)
    return {
        _COMMITTED: result.count / result.seconds,
        _ANSWERED: result.milliseconds(0.99),
        **_costs(result, meter),
    }


def _joins(context: CaseContext) -> Sample:
    broker = context.broker
    with topic(broker.port) as name, group_members(broker.port) as members:
        members.do("come", _groups(_COMING, name), 1)
        with Meter(broker.pid) as meter:
            result = members.do("come_and_go", context.scale.seconds, f"{name}-of-one")
    return {
        _MEMBERS: result.count / result.seconds,
        _ANSWERED: result.milliseconds(0.99),
        **_costs(result, meter),
    }


def _heartbeats(context: CaseContext) -> Sample:
    broker, scale = context.broker, context.scale
    group_size = min(_OF_A_GROUP, scale.members)

    def p99(name: str) -> float:
        return produce_and_wait(
            broker.port,
            name,
            rate=_PRODUCED,
            seconds=scale.latency_seconds,
            warm_up=scale.warm_up_seconds,
        ).milliseconds(0.99)

    with topic(broker.port) as name, group_members(broker.port) as members:
        latency_before = p99(name)
        joins = members.do("come", _groups(scale.members // group_size, name), group_size)
        with Meter(broker.pid) as meter:
            end = members.begin("beat", scale.warm_up_seconds + scale.latency_seconds, _EVERY)
            latency_meanwhile = p99(name)
            result = end()
    return {
        _HEARTBEAT: result.milliseconds(0.99),
        _BEATS: result.count / result.seconds,
        _PRODUCE: latency_meanwhile,
        _BEFORE: latency_before,
        _JOINED: joins.seconds,
        **_costs(result, meter),
    }


def _shares(name: str, members: int) -> list[Share]:
    return [Share(name, range(index * _EACH, (index + 1) * _EACH)) for index in range(members + 1)]


def _one_more(context: CaseContext, *, of_all: bool) -> Sample:
    broker = context.broker
    count = context.scale.group_members if of_all else _FEW
    with (
        topic(broker.port, partitions=(count + 1) * _EACH) as name,
        group_members(broker.port) as members,
    ):
        *shares, last_share = _shares(name, count)
        joins = members.do("come", [name], count, shares)
        with Meter(broker.pid) as meter:
            result = members.do("one_more", _SOON, last_share)
    return {_SETTLED: result.seconds, _JOINED: joins.seconds, **_costs(result, meter)}


def _one_dies(context: CaseContext) -> Sample:
    broker = context.broker
    with (
        topic(broker.port, partitions=(_FEW + 1) * _EACH) as name,
        group_members(broker.port) as members,
    ):
        members.do("come", [name], _FEW, _shares(name, _FEW), SHORT_SESSION_MS)
        with Meter(broker.pid) as meter:
            result = members.do("one_less", _OFTEN)
    return {_REPLACED: result.seconds - SHORT_SESSION_MS / 1e3, **_costs(result, meter)}


def _beside_rebalances(context: CaseContext) -> Sample:
    """The committing member has a process of its own."""
    broker, scale = context.broker, context.scale
    with (
        topic(broker.port, partitions=_PARTITIONS) as name,
        group_members(broker.port) as committing_members,
        group_members(broker.port) as restless_members,
    ):
        committing_members.do("come", [f"{name}-steady"], 1)
        result_before = committing_members.do("commit", scale.seconds, name, _PARTITIONS)
        restless_members.do("come", _groups(_COMING, name), 1)
        with Meter(broker.pid) as meter:
            end = restless_members.begin("come_and_go", scale.seconds, f"{name}-restless")
            result = committing_members.do("commit", scale.seconds, name, _PARTITIONS)
            end()
    return {
        _ANSWERED: result.milliseconds(0.99),
        _ALONE: result_before.milliseconds(0.99),
        _COMMITTED: result.count / result.seconds,
        **_costs(result, meter),
    }


_WITHIN_3_S = Goal(_SETTLED, at_most=3.0)
_WITHIN_10_S = Goal(_SETTLED, at_most=10.0)

PROFILE = Profile(
    "groups",
    f"consumer groups: {_COMMITTING} members commit, each for a group of its own, one request at a "
    f"time; {_COMING} join groups of their own and leave; members in groups of {_OF_A_GROUP} send "
    f"heartbeats every {_EVERY:g} s, beside a client that sends {_PRODUCED} batches a second; one "
    f"more joins a group whose members send heartbeats every {_SOON:g} s and own {_EACH} partitions"
    " each; one goes without a word",
    (
        Case(
            f"commit {_PARTITIONS} partitions",
            partial(_commits, partitions=_PARTITIONS),
            (Goal(_COMMITTED, at_least=10_000),),
        ),
        Case("commit 1 partition", partial(_commits, partitions=1)),
        Case("come and go", _joins),
        Case("heartbeats", _heartbeats, (Goal(_PRODUCE, ahead=True),)),
        Case("commit beside rebalances", _beside_rebalances),
        Case("one more joins 10", partial(_one_more, of_all=False), (_WITHIN_3_S,)),
        Case("one more joins 200", partial(_one_more, of_all=True), (_WITHIN_10_S,)),
        Case("one of 10 dies", _one_dies, (Goal(_REPLACED, at_most=1.0),)),
    ),
)
