"""The time until a broker with a thousand partitions serves all of them."""

import struct
from functools import partial

from bench.contents.topics import ask, create
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.requests import produce_requests, record_batch

_SECONDS = Figure("seconds until all is served", 2)
_TOPICS = 10
_MESSAGES = 50


def _names(context: CaseContext) -> dict[str, int]:
    return {f"many-{number}": context.scale.partitions // _TOPICS for number in range(_TOPICS)}


def _prepare(context: CaseContext) -> None:
    """Write to every partition."""
    topics, batch = _names(context), record_batch(_MESSAGES)
    create(context.broker.port, topics)
    for name, partitions in topics.items():
        for partition in range(partitions):
            requests = produce_requests(name, partition, batch, 1)
            answer = ask(context.broker.port, requests.cycle[: requests.request_size])
            requests.check(bytearray(struct.pack(">i", len(answer)) + answer))


def _start(context: CaseContext, *, gently: bool) -> Sample:
    if gently:
        context.broker.server.stop()
    else:
        context.broker.kill()
    return {_SECONDS: context.broker.seconds_until_served(_names(context))}


PROFILE = Profile(
    "startup",
    "start with 1,000 partitions in 10 topics",
    (
        Case("after a graceful stop", partial(_start, gently=True), (Goal(_SECONDS, at_most=3),)),
        Case("after SIGKILL", partial(_start, gently=False)),
    ),
    prepare=_prepare,
    once=True,
)
