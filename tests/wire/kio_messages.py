"""Messages of kio's classes, their bytes, and comparisons with ours."""

import datetime
import io
import random
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from hypothesis import settings
from kio.serial import entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta
from msgspec import NODEFAULT
from msgspec.structs import fields as struct_fields

from wire.errors import ErrorCode

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
# Messages of each version: there are 350, and each gets a share of what the profile grants to one
# test. Hypothesis itself would need ten times as long to draw them.
EXAMPLES = max(4, settings().max_examples // 10)


class Chance(random.Random):
    """Draws values of Kafka's types, with a preference for limits."""

    def integer(self, bits: int) -> int:
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return self.choice((least, -1, 0, 1, most, self.randint(least, most)))

    def text(self) -> str:
        length = self.choice((0, 1, 5, 12, 50))  # 50 may be more than 127 bytes
        return "".join(self.choices("az\0é€😀", k=length))

    def bytes_(self) -> bytes:
        return self.randbytes(self.choice((0, 1, 12, 127, 130)))


VALUES: dict[str, Callable[[Chance], Any]] = {
    "bool": lambda chance: chance.random() < 0.5,
    "int8": lambda chance: chance.integer(8),
    "int16": lambda chance: chance.integer(16),
    "int32": lambda chance: chance.integer(32),
    "int64": lambda chance: chance.integer(64),
    "uint16": lambda chance: chance.choice((0, 1, 2**16 - 1)),
    "float64": lambda chance: chance.choice((0.0, -1.5, float("inf"), chance.random())),
    "string": Chance.text,
    "bytes": Chance.bytes_,
    "records": Chance.bytes_,
    "uuid": lambda chance: UUID(int=chance.choice((0, 1, chance.getrandbits(128)))),
    "error_code": lambda chance: chance.choice(tuple(ErrorCode)),
    "timedelta_i32": lambda chance: i32Timedelta.parse(chance.integer(32) * MILLISECOND),
    "timedelta_i64": lambda chance: i64Timedelta.parse(chance.integer(48) * MILLISECOND),
    # kio reads times through floats; whole seconds come back as they were
    "datetime_i64": lambda chance: TZAware.parse(
        EPOCH + datetime.timedelta(seconds=chance.randint(0, 2**31))
    ),
}


def messages(schema: Any, seed: str) -> Iterator[Any]:
    """Messages of one of kio's classes. In the first, every list is empty and every nullable field
    null; the second has one of everything.
    """
    chance = Chance(seed if settings().derandomize else None)
    for number in range(EXAMPLES):
        yield message(schema, chance, (0, 1)[number] if number < 2 else None)


def message(schema: Any, chance: Chance, size: int | None) -> Any:
    return schema(**{field.name: value(field, chance, size) for field in fields(schema)})


def value(field: Field[Any], chance: Chance, size: int | None) -> Any:
    type_: Any = field.type
    arguments = get_args(type_)
    optional = NoneType in arguments and "tag" not in field.metadata
    if NoneType in arguments:
        type_ = next(argument for argument in arguments if argument is not NoneType)
    if optional and (chance.random() < 0.3 if size is None else size == 0):
        return None
    if get_origin(type_) is not tuple:
        return element(field, type_, chance, size)
    count = chance.choice((0, 1, 1, 2, 3)) if size is None else size
    return tuple(element(field, get_args(type_)[0], chance, size) for _ in range(count))


def element(field: Field[Any], type_: Any, chance: Chance, size: int | None) -> Any:
    if is_dataclass(type_):
        return message(type_, chance, size)
    return VALUES[field.metadata["kafka_type"]](chance)


def foreign_bytes(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def assert_same(ours: Any, theirs: Any, where: str) -> None:
    """Our value equals kio's, and has the type that the contract of `wire` names."""
    if is_dataclass(theirs):
        names = {field.name for field in fields(theirs)}
        for field in struct_fields(type(ours)):
            at = f"{where}.{field.name}"
            if field.name in names:
                assert_same(getattr(ours, field.name), getattr(theirs, field.name), at)
            else:
                assert field.default is not NODEFAULT, at
                assert getattr(ours, field.name) == field.default, at
    elif isinstance(theirs, tuple):
        assert isinstance(ours, tuple), where
        assert len(ours) == len(theirs), where
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, f"{where}[{index}]")
    elif isinstance(theirs, datetime.timedelta):
        assert ours == theirs // MILLISECOND, where
    elif isinstance(theirs, datetime.datetime):
        assert ours == (theirs - EPOCH) // MILLISECOND, where
    elif isinstance(theirs, UUID):
        assert ours == (theirs if theirs.int else None), where
    elif theirs is None and where.endswith("log_append_time"):
        assert ours == -1, where
    else:
        assert ours == theirs, where
        if isinstance(theirs, ErrorCode):
            assert type(ours) is ErrorCode, where
