"""Changes of a schema that a table survives, with the rows that a reader of it should see.

Of each table, an hour has rows from before and after the change, the next hour only later ones.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from tests.loader.application import BEGAN, HOUR, Application, Json, event_schema

ROWS: Final = 3  # at each time
_FIRST: Final = 2**53 + 1  # not a double


def decimal_bytes(text: str, scale: int) -> bytes:
    number = int(Decimal(text).scaleb(scale))
    return number.to_bytes(6, "big", signed=True)


def _decimal(scale: int) -> Json:
    return {"type": "bytes", "logicalType": "decimal", "precision": 10 + scale, "scale": scale}


class Version(msgspec.Struct, frozen=True):
    """A version of the schema: its field, the value sent, and what a row has then."""

    fields: tuple[Json, ...]
    sent: Mapping[str, Any]
    row: Mapping[str, Any]


class Evolution(msgspec.Struct, frozen=True):
    name: str
    before: Version
    after: Version

    def write(self, application: Application) -> None:
        """Writes events of the former version in the first hour; `change` writes the others."""
        application.write(ROWS, fields=dict(self.before.sent))

    def change(self, application: Application) -> None:
        application.change(event_schema(self.after.fields))
        application.write(ROWS, fields=dict(self.after.sent))
        application.write(ROWS, time=BEGAN + HOUR, fields=dict(self.after.sent))

    @property
    def columns(self) -> list[str]:
        return ["seq", *self.before.row]

    def rows(self, *, hour: bool) -> list[dict[str, Any]]:
        """The rows of the first hour, or of the whole table, with the numbers of their events."""
        versions = [self.before, self.after] if hour else [self.before, self.after, self.after]
        return [
            {"seq": at * ROWS + number, **version.row}
            for at, version in enumerate(versions)
            for number in range(ROWS)
        ]


def _plain(name: str, kind: object, value: object) -> Version:
    return Version(({"name": name, "type": kind},), {name: value}, {name: value})


def _record(field: str, *aliases: str) -> Json:
    fields = [{"name": field, "type": "string", "aliases": list(aliases)}]
    return {"name": "at", "type": {"type": "record", "name": "Place", "fields": fields}}


_KEPT: Final[Json] = {"name": "kept", "type": "string"}
_OPTIONAL: Final[Json] = {"name": "some", "type": ["null", "string"], "default": None}
_WITHOUT: Final = Version((_KEPT,), {"kept": "k"}, {"kept": "k", "some": None})
_WITH: Final = Version((_KEPT, _OPTIONAL), {"kept": "k", "some": "s"}, {"kept": "k", "some": "s"})

EVOLUTIONS: Final = (
    Evolution("field added", _WITHOUT, _WITH),
    Evolution("field removed", _WITH, _WITHOUT),
    Evolution("int → long", _plain("n", "int", 7), _plain("n", "long", _FIRST)),
    Evolution("float → double", _plain("x", "float", 0.5), _plain("x", "double", 1e300)),
    Evolution(
        "decimal widened",
        Version(
            ({"name": "d", "type": _decimal(2)},), {"d": decimal_bytes("1.25", 2)}, {"d": "1.25"}
        ),
        Version(
            ({"name": "d", "type": _decimal(4)},),
            {"d": decimal_bytes("1.1257", 4)},
            {"d": "1.1257"},
        ),
    ),
    Evolution(
        "field renamed",
        Version(({"name": "user", "type": "string"},), {"user": "u"}, {"user": "u"}),
        Version(
            ({"name": "customer", "type": "string", "aliases": ["user"]},),
            {"customer": "c"},
            {"user": "c"},
        ),
    ),
    Evolution(
        "record's field renamed",
        Version((_record("city"),), {"at": {"city": "b"}}, {"at": {"city": "b"}}),
        Version((_record("town", "city"),), {"at": {"town": "c"}}, {"at": {"city": "c"}}),
    ),
)
