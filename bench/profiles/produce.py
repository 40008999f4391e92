"""Producing: batches of 1 and of 50 as in the paper's table, 1 MB batches, and librdkafka.

The raw producer keeps a window of requests unanswered on each connection; more connections than
one write to up to four partitions. A topic is new for each run.
"""

from functools import partial
from pathlib import Path

from bench import librdkafka
from bench.measurement import RATE, Goal, Sample
from bench.profile import Case, Place, Profile
from bench.raw_producer import Load, produce
from bench.requests import MEGABYTE_BATCH
from bench.throughput import CHEAPER, FASTER, SMALL, metered
from bench.topics import ends, topic

_MOST_PARTITIONS = 4
_ACKS = {0: "acks=0", 1: "acks=1", -1: "acks=all"}


def _raw(place: Place, *, batch: int, acks: int, connections: int, window: int) -> Sample:
    partitions = min(connections, _MOST_PARTITIONS)
    with topic(place.broker.port, partitions=partitions) as name:
        return metered(
            place.broker,
            lambda: produce(
                place.broker.port,
                name,
                batch=batch,
                acks=acks,
                connections=connections,
                partitions=partitions,
                window=window,
                seconds=place.scale.seconds,
            ),
        )


def _raw_case(batch: int, acks: int, connections: int, window: int, *goals: Goal) -> Case:
    plural = "s" if connections > 1 else ""
    return Case(
        f"{_ACKS[acks]}, {connections} connection{plural}",
        partial(_raw, batch=batch, acks=acks, connections=connections, window=window),
        (*goals, SMALL),
    )


def lines_of(place: Place) -> Path:
    """The file that kcat sends, written once for all runs."""
    path = place.files / f"lines-{place.scale.messages}"
    if not path.exists():
        librdkafka.write_lines(path, place.scale.messages)
    return path


def _prepare_lines(place: Place) -> None:
    lines_of(place)


def _all_arrived(place: Place, name: str, load: Load) -> Load:
    arrived = ends(place.broker.port, {name: 1})[name, 0]
    if arrived != load.messages:
        raise librdkafka.Incomplete(f"{arrived} of {load.messages} messages are in the log")
    return load


def _kcat(place: Place, *, options: dict[str, str]) -> Sample:
    port, lines = place.broker.port, lines_of(place)
    with topic(port) as name:
        return metered(
            place.broker,
            lambda: _all_arrived(
                place,
                name,
                librdkafka.kcat_produce(port, name, lines, place.scale.messages, options),
            ),
        )


def _confluent(place: Place, *, options: dict[str, str]) -> Sample:
    port = place.broker.port
    with topic(port) as name:
        return metered(
            place.broker,
            lambda: _all_arrived(
                place, name, librdkafka.produce(port, name, place.scale.messages, options)
            ),
        )


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
