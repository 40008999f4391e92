"""The options of the data source, checked before anything is read.

Spark ignores case in the names of options. Positions are words, offsets, or times. Offsets have the
form of Spark's Kafka source: `{"orders": {"0": 5, "1": -2}}`, where -2 is the earliest and -1 the
latest.
"""

import difflib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from client.connection.addresses import parse_addresses
from client.connection.bootstrap import Bootstrap
from client.errors import BadAddress
from ground.http.security import HttpSecurity
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
    """A position given by offsets, by topic and partition; an offset may be EARLIEST or LATEST."""

    offsets: Mapping[str, Mapping[int, int]]


class AtTime(msgspec.Struct, frozen=True):
    """A position given by time: the first record at this time (in milliseconds) or later; the end
    if there is none."""

    millis: int


Position = Earliest | Latest | AtOffsets | AtTime


def position(text: str) -> Position:
    """Parses `earliest`, `latest`, or offsets. Raises ValueError."""
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    try:
        offsets = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError:
        raise ValueError(
            'must be earliest, latest, or offsets such as {"orders": {"0": 5, "1": -2}}'
        ) from None
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if partition < 0 or offset < EARLIEST:
                raise ValueError(f"{topic}: invalid partition {partition} or offset {offset}")
    return AtOffsets(offsets)


def millis(text: str) -> int:
    """Parses milliseconds since 1970, or an ISO 8601 time, in UTC if it has no zone."""
    text = text.strip()
    if text.removeprefix("-").isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "must be milliseconds since 1970, or a time such as 2026-11-20T07:00:00Z"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


class DeadRecords(StrEnum):
    """What to do with records that cannot be decoded."""

    FAIL = "fail"  # the query fails
    SKIP = "skip"  # they are skipped; the executors' logs have their number
    KEEP = "keep"  # they become rows with only their origin, and the reason in `_dead`


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The checked options. `starting` and `ending` are None if not given."""

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
        """Checks that no option is only for streams. Raises OptionRefused."""
        _refuse(self.given, OF_STREAMS, "readStream")

    def for_streams(self) -> None:
        """Checks that no option is only for batches. Raises OptionRefused."""
        _refuse(self.given, OF_BATCHES, "read")


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Parses and checks the options. Raises OptionRefused."""
    names = {name.lower(): name for name in OPTIONS}
    for key in given:
        if key.lower() not in names:
            raise OptionRefused(f"unknown option {key!r}{_nearest(key)}")
    given_options = _Given({names[key.lower()]: text for key, text in given.items()})
    topics = given_options.read("topic", _topics, ())
    pattern = given_options.read("topicPattern", _text, None)
    if bool(topics) == bool(pattern):
        raise OptionRefused("pass either option `topic` or option `topicPattern`")
    options = SourceOptions(
        brokers=given_options.read("brokers", _brokers, "127.0.0.1:9092"),
        registry=_registry_address(given_options),
        topics=topics,
        pattern=pattern,
        subject=given_options.read("schemaSubject", _text, None),
        starting=given_options.place("starting"),
        ending=given_options.place("ending"),
        header=given_options.read("header", _one_of(HeaderColumns), HeaderColumns.FLAT),
        dead=given_options.read("dead", _one_of(DeadRecords), DeadRecords.FAIL),
        fail_on_data_loss=given_options.read("failOnDataLoss", _yes_or_no, True),
        records_per_task=given_options.read("maxRecordsPerTask", _count, RECORDS_PER_TASK),
        bytes_per_task=given_options.read("maxBytesPerTask", _count, None),
        tasks_per_partition=given_options.read("tasksPerPartition", _count, 1),
        records_per_trigger=given_options.read("maxRecordsPerTrigger", _count, None),
        filter_pushdown=given_options.read("filterPushdown", _yes_or_no, False),
        given=frozenset(given_options),
    )
    _check_order(options.starting, options.ending)
    return options


class _Given(dict[str, str]):
    """The given options, by their names in OPTIONS."""

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
            raise OptionRefused(f"pass option `{which}Offsets` or `{which}Timestamp`, not both")
        return offsets if time is None else AtTime(time)


def _check_order(starting: Position | None, ending: Position | None) -> None:
    match starting, ending:
        case AtTime(first), AtTime(last) if first > last:
            raise OptionRefused("option `startingTimestamp` is later than `endingTimestamp`")
        case (Latest(), Earliest()):
            raise OptionRefused("reading cannot start at the latest and end at the earliest offset")
        case AtOffsets(firsts), AtOffsets(lasts):
            for topic, partitions in firsts.items():
                for partition, first in partitions.items():
                    last = lasts.get(topic, {}).get(partition, first)
                    if first > last >= 0:
                        raise OptionRefused(
                            f"{topic}-{partition}: {first} in option `startingOffsets` is after "
                            f"{last} in `endingOffsets`"
                        )


def _nearest(name: str) -> str:
    names_by_lower = {option.lower(): option for option in OPTIONS}
    near_names = difflib.get_close_matches(name.lower()[:100], names_by_lower, n=1, cutoff=0.5)
    return (
        f" (did you mean `{names_by_lower[near_names[0]]}`?)"
        if near_names
        else f": options are {', '.join(OPTIONS)}"
    )


def _refuse(names: frozenset[str], others: tuple[str, ...], where: str) -> None:
    for name in others:
        if name in names:
            raise OptionRefused(f"option `{name}` is for spark.{where} only")


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text.strip()


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_text(part) for part in text.split(",")))
    for name in names:
        if any(letter in name for letter in "*?[]"):
            raise ValueError("patterns require option `topicPattern`")
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


def _registry_address(given: "_Given") -> RegistryAddress:
    urls = given.read("registry", _registry, "http://127.0.0.1:8081")
    security = HttpSecurity()
    if text := given.get("registrySecurity"):
        try:  # the value is not shown: it may contain a password
            security = _security(text)
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
        raise ValueError("must be a whole number, at least 1")
    return count


def _yes_or_no(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("must be true or false")


def _one_of(choice: type[_Choice]) -> Callable[[str], _Choice]:
    def read(text: str) -> _Choice:
        try:
            return choice(text.strip().lower())
        except ValueError:
            raise ValueError(f"must be one of {', '.join(choice)}") from None

    return read
