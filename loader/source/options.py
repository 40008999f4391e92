"""What a user can tell the data source. Checked at once, before anything is read.

Spark knows no upper and lower case in the names of options. Where reading begins or ends is said in
words, by offsets, or by a time. Offsets are written as for Spark's Kafka source:
`{"orders": {"0": 5, "1": -2}}`, where -2 is the earliest and -1 the latest.
"""

import difflib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from client.addresses import parse_addresses
from client.bootstrap import Bootstrap
from client.errors import BadAddress
from ground.http_security import HttpSecurity
from ground.known_types import known_type
from loader.config import HeaderColumns
from loader.errors import OptionRefused
from schemas.remote.address import RegistryAddress, check_registry
from schemas.remote.urls import parse_urls

EARLIEST: Final = -2
LATEST: Final = -1
RECORDS_PER_TASK: Final = 1_000_000
OPTIONS: Final = (
    "brokers",
    "registry",
    "registrySecurity",
    "topic",
    "topicPattern",
    "schemaSubject",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "header",
    "dead",
    "failOnDataLoss",
    "maxRecordsPerTask",
    "maxBytesPerTask",
    "tasksPerPartition",
    "maxRecordsPerTrigger",
    "filterPushdown",
)
OF_BATCHES: Final = ("endingOffsets", "endingTimestamp", "filterPushdown")
OF_STREAMS: Final = ("maxRecordsPerTrigger",)
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")
_Choice = TypeVar("_Choice", bound=StrEnum)


class Earliest(msgspec.Struct, frozen=True):
    pass


class Latest(msgspec.Struct, frozen=True):
    pass


class AtOffsets(msgspec.Struct, frozen=True):
    """By topic and partition; each may be EARLIEST or LATEST."""

    offsets: Mapping[str, Mapping[int, int]]


class AtTime(msgspec.Struct, frozen=True):
    """At the first record of this time or later, in milliseconds; at the end if there is none."""

    millis: int


Position = Earliest | Latest | AtOffsets | AtTime


def position(text: str) -> Position:
    """`earliest`, `latest`, or offsets. ValueError if it is none of these."""
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    try:
        offsets = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError:
        raise ValueError(
            'neither earliest, nor latest, nor offsets such as {"orders": {"0": 5, "1": -2}}'
        ) from None
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if partition < 0 or offset < EARLIEST:
                raise ValueError(f"{topic}: partition {partition} at {offset} cannot be")
    return AtOffsets(offsets)


def millis(text: str) -> int:
    """A time in milliseconds since 1970, or as ISO 8601 has it; in UTC if it names no zone."""
    text = text.strip()
    if text.removeprefix("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "neither milliseconds since 1970 nor a time such as 2026-11-20T07:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class DeadRecords(StrEnum):
    """What becomes of records that cannot be decoded."""

    FAIL = "fail"  # the query
    SKIP = "skip"  # they are passed over; an executor's log says how many
    KEEP = "keep"  # each is a row that has only `_dead`, which says why, and where it came from


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`starting` and `ending` are None if nothing is said."""

    brokers: str
    registry: RegistryAddress
    topics: tuple[str, ...]
    pattern: str | None
    subject: str | None
    starting: Position | None
    ending: Position | None
    header: HeaderColumns
    dead: DeadRecords
    fail_on_data_loss: bool
    records_per_task: int
    bytes_per_task: int | None
    tasks_per_partition: int
    records_per_trigger: int | None
    filter_pushdown: bool
    given: frozenset[str] = frozenset()  # names of options

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap.of(self.brokers)

    def for_batches(self) -> None:
        """Raises OptionRefused if something is said that only streams have."""
        _refuse(self.given, OF_STREAMS, "readStream")

    def for_streams(self) -> None:
        """The other way round."""
        _refuse(self.given, OF_BATCHES, "read")


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises OptionRefused."""
    names = {name.lower(): name for name in OPTIONS}
    for key in given:
        if key.lower() not in names:
            raise OptionRefused(f"option {key!r}: there is none of that name{_nearest(key)}")
    known = _Given({names[key.lower()]: text for key, text in given.items()})
    topics = known.read("topic", _topics, ())
    pattern = known.read("topicPattern", _text, None)
    if bool(topics) == bool(pattern):
        raise OptionRefused("give option `topic` or `topicPattern`, and one of them only")
    options = SourceOptions(
        brokers=known.read("brokers", _brokers, "127.0.0.1:9092"),
        registry=_registry_address(known),
        topics=topics,
        pattern=pattern,
        subject=known.read("schemaSubject", _text, None),
        starting=known.place("starting"),
        ending=known.place("ending"),
        header=known.read("header", _one_of(HeaderColumns), HeaderColumns.FLAT),
        dead=known.read("dead", _one_of(DeadRecords), DeadRecords.FAIL),
        fail_on_data_loss=known.read("failOnDataLoss", _yes_or_no, True),
        records_per_task=known.read("maxRecordsPerTask", _count, RECORDS_PER_TASK),
        bytes_per_task=known.read("maxBytesPerTask", _count, None),
        tasks_per_partition=known.read("tasksPerPartition", _count, 1),
        records_per_trigger=known.read("maxRecordsPerTrigger", _count, None),
        filter_pushdown=known.read("filterPushdown", _yes_or_no, False),
        given=frozenset(known),
    )
    _check_order(options.starting, options.ending)
    return options


class _Given(dict[str, str]):
    """What the user says, by the names of options as they are written here."""

    def read(
        self, name: str, read: Callable[[str], _Value], otherwise: _Default
    ) -> _Value | _Default:
        if name not in self:
            return otherwise
        try:
            return read(self[name])
        except (ValueError, BadAddress) as error:
            raise OptionRefused(f"option `{name}`, {self[name]!r}: {error}") from None

    def place(self, which: str) -> Position | None:
        offsets = self.read(f"{which}Offsets", position, None)
        time = self.read(f"{which}Timestamp", millis, None)
        if offsets is not None and time is not None:
            raise OptionRefused(f"give option `{which}Offsets` or `{which}Timestamp`, not both")
        return offsets if time is None else AtTime(time)


def _check_order(starting: Position | None, ending: Position | None) -> None:
    match starting, ending:
        case AtTime(first), AtTime(last) if first > last:
            raise OptionRefused("option `startingTimestamp` is later than `endingTimestamp`")
        case (Latest(), Earliest()):
            raise OptionRefused("reading cannot begin at the latest and end at the earliest")
        case AtOffsets(firsts), AtOffsets(lasts):
            for topic, partitions in firsts.items():
                for partition, first in partitions.items():
                    last = lasts.get(topic, {}).get(partition, first)
                    if first > last >= 0:
                        raise OptionRefused(
                            f"{topic}-{partition}: option `startingOffsets` has {first}, behind "
                            f"{last} of `endingOffsets`"
                        )


def _nearest(name: str) -> str:
    lower = {each.lower(): each for each in OPTIONS}
    near = difflib.get_close_matches(name.lower()[:100], lower, n=1, cutoff=0.5)
    return f" (did you mean `{lower[near[0]]}`?)" if near else f": there are {', '.join(OPTIONS)}"


def _refuse(given: frozenset[str], others: tuple[str, ...], where: str) -> None:
    for name in others:
        if name in given:
            raise OptionRefused(f"option `{name}` is for spark.{where} only")


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_text(part) for part in text.split(",")))
    for name in names:
        if any(letter in name for letter in "*?[]"):
            raise ValueError("patterns are for option `topicPattern`")
    return names


def _brokers(text: str) -> str:
    parse_addresses(text)
    return text


def _registry(text: str) -> str:
    parse_urls(text)
    return text


def _security(text: str) -> HttpSecurity:
    try:
        return msgspec.json.decode(text, type=known_type(HttpSecurity))
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def _registry_address(known: "_Given") -> RegistryAddress:
    urls = known.read("registry", _registry, "http://127.0.0.1:8081")
    security = HttpSecurity()
    if said := known.get("registrySecurity"):
        try:  # what was given is not shown: somebody may have written a password there
            security = _security(said)
        except ValueError as error:
            raise OptionRefused(f"option `registrySecurity`: {error}") from None
    try:
        check_registry(urls, security)
    except ValueError as error:
        raise OptionRefused(f"option {error}") from None
    return RegistryAddress(urls, security)


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError("it must be a whole number, 1 at least")
    return count


def _yes_or_no(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("it is true or false")


def _one_of(choice: type[_Choice]) -> Callable[[str], _Choice]:
    def read(text: str) -> _Choice:
        try:
            return choice(text.strip().lower())
        except ValueError:
            raise ValueError(f"it is one of {', '.join(choice)}") from None

    return read
