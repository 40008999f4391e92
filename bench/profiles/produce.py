"""Producing: batches of 1 and of 50 as in the paper's table, batches of 1 MB, and librdkafka.

The raw producer keeps a window of unanswered requests on each connection; several connections share
up to four partitions. Every run has a new topic.
"""

from functools import partial
from pathlib import Path

from bench.contents.topics import topic, wait_for_end
from bench.figures.measurement import RATE, Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.figures.throughput import CHEAPER, FASTER, SMALL, metered
from bench.loads import librdkafka
from bench.loads.raw_producer import produce
from bench.loads.requests import MEGABYTE_BATCH

_MOST_PARTITIONS = 4
_ACKS = {0: "acks=0", 1: "acks=1", -1: "acks=all"}


def _raw(context: CaseContext, *, batch: int, acks: int, connections: int, window: int) -> Sample:
    partitions = min(connections, _MOST_PARTITIONS)
    with topic(context.broker.port, partitions=partitions) as name:
        return metered(
            context.broker,
            lambda: produce(
                [context.broker.port] * partitions,
                name,
                batch=batch,
                acks=acks,
                connections=connections,
                window=window,
                seconds=context.scale.seconds,
            ),
        )


def _raw_case(batch: int, acks: int, connections: int, window: int, *goals: Goal) -> Case:
    suffix = "s" if connections > 1 else ""
    return Case(
        f"{_ACKS[acks]}, {connections} connection{suffix}",
        partial(_raw, batch=batch, acks=acks, connections=connections, window=window),
        (*goals, SMALL),
    )


def lines_of(context: CaseContext) -> Path:
    """Returns the file that kcat sends, which is written once."""
    return librdkafka.file_of_lines(context.files, context.scale.messages)


def _prepare_lines(context: CaseContext) -> None:
    lines_of(context)


def _kcat(context: CaseContext, *, options: dict[str, str]) -> Sample:
    port, lines, messages = context.broker.port, lines_of(context), context.scale.messages
    with topic(port) as name:
        sample = metered(
            context.broker, lambda: librdkafka.kcat_produce(port, name, lines, messages, options)
        )
        wait_for_end(port, name, messages)
        return sample


def _confluent(context: CaseContext, *, options: dict[str, str]) -> Sample:
    port, messages = context.broker.port, context.scale.messages
    with topic(port) as name:
        sample = metered(context.broker, lambda: librdkafka.produce(port, name, messages, options))
        wait_for_end(port, name, messages)
        return sample


_PAPER_ONE = Goal(RATE, at_least=50_000, ahead=True)
_PAPER_FIFTY = Goal(RATE, at_least=400_000, ahead=True)

PROFILES = (
    Profile(
        "produce-1",
        "batches of one 200-byte message; the paper: 50,000 a second, no acknowledgements",
        (
            _raw_case(1, 0, 1, 64, _PAPER_ONE),
            _raw_case(1, 1, 1, 64, _PAPER_ONE),
            _raw_case(1, 1, 4, 64, _PAPER_ONE),
            _raw_case(1, 1, 16, 64, _PAPER_ONE),
            _raw_case(1, -1, 4, 64, FASTER),
        ),
    ),
    Profile(
        "produce-50",
        "batches of fifty 200-byte messages; the paper: 400,000 a second, no acknowledgements",
        (
            _raw_case(50, 0, 1, 64, _PAPER_FIFTY),
            _raw_case(50, 1, 1, 64, _PAPER_FIFTY),
            _raw_case(50, 1, 4, 64, _PAPER_FIFTY),
            _raw_case(50, -1, 4, 64, FASTER),
        ),
    ),
    Profile(
        "produce-1mb",
        f"batches of 1 MB ({MEGABYTE_BATCH:,} messages)",
        (
            _raw_case(MEGABYTE_BATCH, 1, 1, 4, FASTER, CHEAPER),
            _raw_case(MEGABYTE_BATCH, 1, 4, 4, FASTER, CHEAPER),
            _raw_case(MEGABYTE_BATCH, -1, 1, 4, FASTER, CHEAPER),
        ),
    ),
    Profile(
        "produce-librdkafka",
        "librdkafka with its own defaults (acks=all), and with acks=1",
        (
            Case("kcat", partial(_kcat, options={}), (FASTER, CHEAPER, SMALL)),
            Case("kcat, acks=1", partial(_kcat, options={"acks": "1"}), (FASTER, CHEAPER, SMALL)),
            Case(
                "confluent-kafka",
                partial(_confluent, options={}),
                (FASTER, CHEAPER, SMALL),
            ),
            Case(
                "confluent-kafka, acks=1",
                partial(_confluent, options={"acks": "1"}),
                (FASTER, CHEAPER, SMALL),
            ),
        ),
        prepare=_prepare_lines,
    ),
)
