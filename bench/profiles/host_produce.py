"""Producing to a host with two cores: two brokers of Penstock, or one of Apache Kafka.

A broker of Penstock uses one core, Apache Kafka both. The brokers share a topic of four partitions
without other replicas; the raw producer writes to each over a connection of its own.
"""

from functools import partial
from typing import Final

from bench.contents.cluster_topics import end, leaders, seconds_until, topic
from bench.figures.measurement import Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.throughput import CHEAPER, FASTER, metered
from bench.loads import librdkafka
from bench.loads.raw_producer import produce
from bench.loads.requests import MEGABYTE_BATCH, AnswerError
from bench.profiles.produce import lines_of

_PARTITIONS: Final = 4


def _raw(context: CaseContext, *, batch: int, acks: int, window: int) -> Sample:
    with topic(context.cluster, partitions=_PARTITIONS, replicas=1) as name:
        ports = leaders(context.cluster, name)
        if len(set(ports)) != len(context.cluster.members):
            raise AnswerError("not every broker leads a partition")
        return metered(
            context.cluster,
            lambda: produce(
                ports,
                name,
                batch=batch,
                acks=acks,
                connections=_PARTITIONS,
                window=window,
                seconds=context.scale.seconds,
            ),
        )


def _kcat(context: CaseContext) -> Sample:
    cluster, lines, messages = context.cluster, lines_of(context), context.scale.messages
    with topic(cluster, partitions=_PARTITIONS, replicas=1) as name:
        sample = metered(
            cluster,
            lambda: librdkafka.kcats_produce(
                cluster.bootstrap, name, lines, messages, {"acks": "1"}, kcats=1
            ),
        )
        seconds_until(
            lambda: end(cluster, name, _PARTITIONS) == messages, f"{messages} messages in the log"
        )
        return sample


PROFILE: Final = Profile(
    "host-produce",
    "two brokers on two cores, beside one of Apache Kafka: four partitions without other replicas",
    (
        Case(
            "batches of fifty, acks=all",
            partial(_raw, batch=50, acks=-1, window=64),
            (FASTER, CHEAPER),
        ),
        Case(
            "batches of 1 MB, acks=1",
            partial(_raw, batch=MEGABYTE_BATCH, acks=1, window=4),
            (FASTER, CHEAPER),
        ),
        Case("kcat, acks=1", _kcat, (FASTER, CHEAPER)),
    ),
)
