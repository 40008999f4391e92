"""The cost of permission checks with 10,000 ACLs, beside a broker without any.

Fetches of a missing topic are the smallest requests that need a check. They name the same topic
again and again, or always another one, for which a broker cannot have a cached result. The broker
with ACLs and the one without take turns within a run. The cost of Penstock's check alone, without a
request, is a separate case (`bench.permissions`).
"""

from collections.abc import Callable
from functools import partial

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench.contents.topics import create
from bench.figures.measurement import Figure, Goal, NotMeasured, Sample
from bench.figures.processes import Meter
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.raw_producer import produce
from bench.loads.request_load import Sent, send_all
from bench.loads.requests import fetches_in_vain
from bench.permissions import FIRST, anonymous_prefixes, generated_acls, timings
from bench.servers.brokers import PENSTOCK, Broker

_WINDOW = 64
_CYCLE = 2_000
_TURNS = 2
_AT_ONCE = 500
_PATIENCE = 120.0
_LENGTH = 40  # of a topic's name
_FREE = Figure("requests/s without authorization", more_is_better=True)
_ASKED = Figure("requests/s with ACLs", more_is_better=True)
_CPU_FREE = Figure("broker CPU-µs a request, without", 2)
_CPU_ASKED = Figure("broker CPU-µs a request, with ACLs", 2)
_TIMES = Figure("CPU with / without", 2)


def _prepare(context: CaseContext) -> None:
    for broker in (context.guarded.open, context.guarded.guarded):
        create(broker.port, {_written(context): 1})
    bootstrap = f"127.0.0.1:{context.guarded.guarded.port}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            pattern.name,
            ResourcePatternType[pattern.pattern_type.name],
            acl.principal,
            acl.host,
            AclOperation[acl.operation.name],
            AclPermissionType[acl.permission.name],
        )
        for pattern, acls in generated_acls(context.scale.acls).items()
        for acl in acls
    ]
    for start in range(0, len(bindings), _AT_ONCE):
        chunk = bindings[start : start + _AT_ONCE]
        for addition in admin.create_acls(chunk, request_timeout=_PATIENCE).values():
            addition.result(_PATIENCE)


def _names(context: CaseContext, count: int) -> list[str]:
    """Missing topics on which the anonymous principal may do anything except delete them."""
    prefixes = anonymous_prefixes(context.scale.acls)
    return [
        prefix + str(number).zfill(_LENGTH - len(prefix))
        for number in range(count)
        for prefix in [prefixes[number % len(prefixes)]]
    ]


def _written(context: CaseContext) -> str:
    return f"{anonymous_prefixes(context.scale.acls)[0]}clicks"


def _compared(context: CaseContext, load: Callable[[Broker, float], Sent]) -> Sample:
    """Run the load on both brokers, in turns."""
    requests, seconds, cpu_seconds = [0, 0], [0.0, 0.0], [0.0, 0.0]
    for _ in range(_TURNS):
        for index, broker in enumerate((context.guarded.open, context.guarded.guarded)):
            with Meter(broker.pid) as meter:
                result = load(broker, context.scale.seconds / _TURNS)
            requests[index] += result.requests
            seconds[index] += result.seconds
            cpu_seconds[index] += meter.broker_cpu
    open_cost, guarded_cost = (cpu_seconds[index] / requests[index] * 1e6 for index in (0, 1))
    return {
        _ASKED: requests[1] / seconds[1],
        _FREE: requests[0] / seconds[0],
        _CPU_ASKED: guarded_cost,
        _CPU_FREE: open_cost,
        _TIMES: guarded_cost / open_cost,
    }


def _fetch(context: CaseContext, *, of_one: bool) -> Sample:
    count = context.scale.fetches
    requests = fetches_in_vain(_names(context, 1) * _CYCLE if of_one else _names(context, count))
    return _compared(
        context,
        lambda broker, seconds: send_all(
            [broker.port], [requests], window=_WINDOW, seconds=seconds
        ),
    )


def _produce(context: CaseContext) -> Sample:
    def load(broker: Broker, seconds: float) -> Sent:
        result = produce(
            [broker.port], _written(context), batch=1, acks=1, window=_WINDOW, seconds=seconds
        )
        return Sent(result.messages, result.seconds)

    return _compared(context, load)


def _in_process(context: CaseContext) -> Sample:
    if context.server.name != PENSTOCK:
        raise NotMeasured("only Penstock's checks can be called directly")
    return timings(context.scale.acls)


_AHEAD = (Goal(_ASKED, ahead=True), Goal(_CPU_ASKED, ahead=True))

PROFILE = Profile(
    "acls",
    "small requests with 10,000 ACLs, and without authorization beside it; one connection",
    (
        Case("fetch, the same topic", partial(_fetch, of_one=True), _AHEAD),
        Case("fetch, another topic each time", partial(_fetch, of_one=False), _AHEAD),
        Case("produce, batches of one, acks=1", _produce, _AHEAD),
        Case("asked in the process", _in_process, (Goal(FIRST, at_most=2),)),
    ),
    prepare=_prepare,
)
