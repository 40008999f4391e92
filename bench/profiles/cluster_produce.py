"""Producing to three replicas with acks=all: at librdkafka's defaults, and in batches of fifty.

Several kcat at a time, idempotent, to partitions that every broker leads some of. The figures are
those of all three brokers together: every message is written three times.
"""

from functools import partial

from bench import librdkafka
from bench.cluster_topics import end, topic
from bench.measurement import Sample
from bench.profile import Case, Place, Profile
from bench.requests import AnswerError
from bench.throughput import CHEAPER, FASTER, metered

_KCATS = 3
_PARTITIONS = 6
_SAFE = {"acks": "all", "enable.idempotence": "true"}


def _prepare(place: Place) -> None:
    for share in (1, 5):
        librdkafka.file_of_lines(place.files, _messages(place, share))


def _messages(place: Place, share: int) -> int:
    """Of one kcat; where batches are small, a share of what is sent otherwise."""
    return place.scale.replicated_messages // share // _KCATS


def _kcats(place: Place, *, options: dict[str, str], share: int) -> Sample:
    cluster, messages = place.cluster, _messages(place, share)
    lines = librdkafka.file_of_lines(place.files, messages)
    with topic(cluster, partitions=_PARTITIONS) as name:
        sample = metered(
            cluster,
            lambda: librdkafka.kcats_produce(
                cluster.bootstrap, name, lines, messages, {**_SAFE, **options}, kcats=_KCATS
            ),
        )
        kept = end(cluster, name, _PARTITIONS)
    if kept != _KCATS * messages:
        raise AnswerError(f"{_KCATS * messages} messages were acknowledged, {kept} are there")
    return sample


PROFILE = Profile(
    "cluster-produce",
    f"{_KCATS} kcat at a time to {_PARTITIONS} partitions of three replicas, acks=all, idempotent",
    (
        Case("librdkafka's defaults", partial(_kcats, options={}, share=1), (FASTER, CHEAPER)),
        Case(
            "batches of fifty",
            partial(_kcats, options={"batch.num.messages": "50"}, share=5),
            (FASTER, CHEAPER),
        ),
    ),
    prepare=_prepare,
)
