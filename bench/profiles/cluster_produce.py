"""Producing to three replicas with acks=all: at librdkafka's defaults, and in batches of fifty.

Penstock acknowledges data that is on three disks. Apache Kafka's default acknowledges data in the
memory of three brokers; with `flush.messages=1` each of them flushes every append.

Several idempotent kcats send to partitions whose leaders are spread over all brokers. The figures
are those of the three brokers together: every message is written three times.
"""

from functools import partial

from bench.contents.cluster_topics import end, topic
from bench.figures.measurement import Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.throughput import CHEAPER, FASTER, metered
from bench.loads import librdkafka
from bench.loads.requests import AnswerError

_KCATS = 3
_PARTITIONS = 6
_SAFE = {"acks": "all", "enable.idempotence": "true"}


def _prepare(context: CaseContext) -> None:
    for share in (1, 5):
        librdkafka.file_of_lines(context.files, _messages(context, share))


def _messages(context: CaseContext, share: int) -> int:
    """The messages of one kcat, divided by `share` for small batches."""
    return context.scale.replicated_messages // share // _KCATS


def _kcats(context: CaseContext, *, options: dict[str, str], share: int, durable: bool) -> Sample:
    cluster, messages = context.cluster, _messages(context, share)
    config = cluster.durable if durable else {}
    lines = librdkafka.file_of_lines(context.files, messages)
    with topic(cluster, partitions=_PARTITIONS, config=config) as name:
        sample = metered(
            cluster,
            lambda: librdkafka.kcats_produce(
                cluster.bootstrap, name, lines, messages, {**_SAFE, **options}, kcats=_KCATS
            ),
        )
        arrived_count = end(cluster, name, _PARTITIONS)
    if arrived_count != _KCATS * messages:
        raise AnswerError(
            f"{_KCATS * messages} messages were acknowledged, {arrived_count} arrived"
        )
    return sample


PROFILE = Profile(
    "cluster-produce",
    f"{_KCATS} kcat at a time to {_PARTITIONS} partitions of three replicas, acks=all, idempotent",
    tuple(
        Case(
            f"{batches}{against}",
            partial(_kcats, options=options, share=share, durable=durable),
            (FASTER, CHEAPER),
        )
        for against, durable in (("", False), (", Apache Kafka with flush.messages=1", True))
        for batches, options, share in (
            ("librdkafka's defaults", {}, 1),
            ("batches of fifty", {"batch.num.messages": "50"}, 5),
        )
    ),
    prepare=_prepare,
)
