"""The cost of an fdatasync before each acks=all answer, at librdkafka's default batching.

A sample is two consecutive runs of kcat: acks=1, then acks=all. Apache Kafka answers acks=all from
memory unless it flushes every append, as it does here.
"""

from bench.contents.topics import topic
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads import librdkafka
from bench.profiles.produce import lines_of

_UNFLUSHED = Figure("messages/s with acks=1", more_is_better=True)
_DURABLE = Figure("messages/s with acks=all", more_is_better=True)
_RATIO = Figure("acks=all / acks=1", 2, more_is_better=True)


def _both(context: CaseContext) -> Sample:
    port, lines, messages = context.broker.port, lines_of(context), context.scale.messages
    with topic(port) as name:
        leader_result = librdkafka.kcat_produce(port, name, lines, messages, {"acks": "1"})
    with topic(port, config=context.broker.durable) as name:
        all_result = librdkafka.kcat_produce(port, name, lines, messages, {"acks": "all"})
    return {
        _UNFLUSHED: leader_result.rate,
        _DURABLE: all_result.rate,
        _RATIO: all_result.rate / leader_result.rate,
    }


def _prepare(context: CaseContext) -> None:
    lines_of(context)


PROFILE = Profile(
    "durability",
    "kcat with acks=all, every answer after fdatasync, against acks=1",
    (Case("kcat", _both, (Goal(_DURABLE, ahead=True), Goal(_RATIO, at_least=0.7))),),
    prepare=_prepare,
)
