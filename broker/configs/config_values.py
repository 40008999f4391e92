"""The types of config values, as in Kafka: how values are parsed and formatted.

A parser takes the text and returns its value, or raises `ValueError` with a reason for people.
`text_of` is its inverse: the canonical form, the one Kafka would show.
"""

import re
from collections.abc import Callable

import msgspec

from wire.messages.describe_configs import ConfigType
from wire.mirrored import MirrorCut, MirrorOf

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...]

ALL_REPLICAS = "*"

_REPLICA = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_GAP = re.compile(r"([0-9]{1,10}):([0-9]{1,18})-([0-9]{1,18})")
_MOST_GAPS = 10_000
_RELEASE = re.compile(r"[0-9]{1,2}(\.[0-9]{1,2}){1,3}(-IV[0-9]{1,2})?")
_LONGEST_FOREIGN = 1000


class ValueType(msgspec.Struct, frozen=True):
    """The type of a config value as clients know it, with the bounds of one config."""

    kind: ConfigType
    read: Callable[[str], Value]


def integer(low: int, high: int = MAX_INT) -> ValueType:
    return ValueType(ConfigType.INT, _within(low, min(high, MAX_INT)))


def long(low: int, high: int = MAX_LONG) -> ValueType:
    return ValueType(ConfigType.LONG, _within(low, high))


def fraction() -> ValueType:
    def read(text: str) -> Value:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("not a number") from None
        if not 0 <= value <= 1:
            raise ValueError("must be between 0 and 1")
        return value

    return ValueType(ConfigType.DOUBLE, read)


def boolean() -> ValueType:
    def read(text: str) -> Value:
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
        raise ValueError("must be true or false")

    return ValueType(ConfigType.BOOLEAN, read)


def one_of(*allowed: str, otherwise: str = "") -> ValueType:
    """Accepts one of the allowed words; `otherwise` explains why other words, which Kafka may
    accept, are rejected."""

    def read(text: str) -> Value:
        if (word := text.strip()) in allowed:
            return word
        raise ValueError(f"must be {_either(allowed)}" + (f": {otherwise}" if otherwise else ""))

    return ValueType(ConfigType.STRING, read)


def never(why: str) -> ValueType:
    """Accepts only `false`; `why` explains the rejection of `true`."""

    def read(text: str) -> Value:
        if text.strip().lower() == "false":
            return False
        raise ValueError(f"must be false: {why}")

    return ValueType(ConfigType.BOOLEAN, read)


def release_of_kafka() -> ValueType:
    """Accepts the name of a Kafka format version: `2.8`, `3.0-IV1`."""

    def read(text: str) -> Value:
        if _RELEASE.fullmatch(word := text.strip()):
            return word
        raise ValueError("must be a Kafka release, such as 3.0 or 3.0-IV1")

    return ValueType(ConfigType.STRING, read)


def left_off() -> ValueType:
    """Accepts the values of a foreign feature's config that leave the feature off."""

    def read(text: str) -> Value:
        word = text.strip()
        if len(word) > _LONGEST_FOREIGN:
            raise ValueError(f"has {len(word)} characters, at most {_LONGEST_FOREIGN} are allowed")
        if word.lower() == "true" or word.startswith("{"):
            raise ValueError("would enable a feature that Penstock does not have")
        return word

    return ValueType(ConfigType.STRING, read)


def some_of(*allowed: str) -> ValueType:
    """Accepts a list of at least one of the allowed words, in any order."""

    def read(text: str) -> Value:
        words = _words(text)
        if not words or not set(words) <= set(allowed):
            raise ValueError(f"must be a list of {_either(allowed)}")
        return words

    return ValueType(ConfigType.LIST, read)


def throttled_replicas() -> ValueType:
    """Accepts replicas as in Kafka's throttles: a list of `partition:broker`, or `*` for all."""

    def read(text: str) -> Value:
        words = _words(text)
        if words != (ALL_REPLICAS,) and not all(_REPLICA.fullmatch(word) for word in words):
            raise ValueError(
                f"must be {ALL_REPLICAS}, or a list of [partitionId]:[brokerId],[partitionId]:…"
            )
        return words

    return ValueType(ConfigType.LIST, read)


def mark_of_copy() -> ValueType:
    """Accepts the origin of a copied topic (`MirrorOf`); empty if the topic is not a copy."""

    def read(text: str) -> Value:
        return str(MirrorOf.parse(word)) if (word := text.strip()) else ""

    return ValueType(ConfigType.STRING, read)


def gaps() -> ValueType:
    """Accepts gaps in the offsets of partitions: `partition:from-to`."""

    def read(text: str) -> Value:
        words = _words(text)
        if len(words) > _MOST_GAPS:
            raise ValueError(f"has {len(words)} gaps, at most {_MOST_GAPS} are allowed")
        for word in words:
            if (parsed_gap := gap(word)) is None or parsed_gap[1] >= parsed_gap[2]:
                raise ValueError(
                    f"{word[:80]!r} is not [partitionId]:[from]-[to], the log's end and the "
                    "higher offset at which it continues"
                )
        return words

    return ValueType(ConfigType.LIST, read)


def cuts() -> ValueType:
    """Accepts ranges to cut off from partitions, in the format of `MirrorCut`."""

    def read(text: str) -> Value:
        words = _words(text)
        if len(words) > _MOST_GAPS:
            raise ValueError(f"has {len(words)} cuts, at most {_MOST_GAPS} are allowed")
        for word in words:
            MirrorCut.parse(word)
        return words

    return ValueType(ConfigType.LIST, read)


def gap(word: str) -> tuple[int, int, int] | None:
    """Parses a gap: partition, the log's end, and the offset after the gap; None if malformed."""
    match = _GAP.fullmatch(word)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def replica(partition: int, broker_id: int) -> str:
    """Returns the entry of a replica in a list of throttled replicas."""
    return f"{partition}:{broker_id}"


def text_of(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
    return str(value)


def _within(low: int, high: int) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        if not _INTEGER.fullmatch(text.strip()):
            raise ValueError("not a whole number")
        value = int(text)
        if value < low:
            raise ValueError(f"must be at least {low}")
        if value > high:
            raise ValueError(f"must be at most {high}")
        return value

    return read


def _words(text: str) -> tuple[str, ...]:
    """The words of a list, each once, in their order."""
    return tuple(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def _either(allowed: tuple[str, ...]) -> str:
    return " or ".join(allowed)
