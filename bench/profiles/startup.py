"""How long a broker with a thousand partitions takes until it serves every one of them."""

import struct
from functools import partial

from bench.contents.topics import ask, create
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.profile import Case, Place, Profile
from bench.loads.requests import produce_requests, record_batch

_SECONDS = Figure("seconds until all is served", 2)
_TOPICS = 10
_MESSAGES = 50


def _names(place: Place) -> dict[str, int]:
    return {f"many-{number}": place.scale.partitions // _TOPICS for number in range(_TOPICS)}


def _prepare(place: Place) -> None:
    """Every partition with something in it."""
    topics, batch = _names(place), record_batch(_MESSAGES)
    create(place.broker.port, topics)
    for name, partitions in topics.items():
        for partition in range(partitions):
            requests = produce_requests(name, partition, batch, 1)
            answer = ask(place.broker.port, requests.cycle[: requests.request_size])
            requests.check(bytearray(struct.pack(">i", len(answer)) + answer))


def _start(place: Place, *, gently: bool) -> Sample:
    if gently:
        place.broker.server.stop()
    else:
        place.broker.kill()
    return {_SECONDS: place.broker.seconds_until_served(_names(place))}


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
