"""JSON lines that need no conversion, to the fields of events in one pass: in C, if it is compiled.

A line is taken if it is an object of strings, numbers, booleans and null, each of the kind that its
field has in the schema. Other lines are left, with None for a body, and what would be made of them
is `json_tails`'s business; what is made here is the same that it would make.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from agent.batches.tail_encoder import TailEncoder
from ground.varints import VARINTS
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Enum, Primitive, Type, Union

try:
    from agent.batches._json_bodies import encode
except ImportError:
    NATIVE = False
else:
    NATIVE = True

_KINDS: Final = ("string", "int", "long", "float", "double", "boolean", "enum")
_OTHER: Final = len(_KINDS)  # a field may be missing, or null, and the line is left otherwise
_MOST: Final = 128  # names, and fields; a line is left if an enum has more than twice as many
_CONSTANT: Final = -1

_Field: TypeAlias = tuple[int, int, bytes, bytes | None, bytes | None, tuple[bytes, ...]]
"""Its place among the names, its kind, what stands before the value, before null and for a field
that is missing (None: the line is left), and the symbols of an enum."""


class PlainJson:
    """Made once for an input. `constants` are the bodies of fields that no line changes."""

    def __init__(
        self,
        encoder: TailEncoder,
        *,
        take: Sequence[str],
        constants: Mapping[str, bytes],
        only_known: bool,
        native: bool = NATIVE,
    ) -> None:
        names = [*dict.fromkeys([*encoder.names, *take, *constants])]
        places = {name: place for place, name in enumerate(names)}
        fields: list[_Field] = []
        for name, _, null, missing in encoder.fields:
            if name in constants:
                fields.append((_CONSTANT, _OTHER, b"", None, constants[name], ()))
                continue
            kind, prefix, symbols = _kind(encoder.types[name])
            fields.append((places[name], kind, prefix, null, missing, symbols))
        self._plan = (
            encoder.header_rest,
            only_known,
            tuple(name.encode() for name in names),
            tuple(fields),
            tuple(places[name] for name in take),
        )
        # A field that was renamed may stand under any of its names.
        self.can_be = native and not encoder.aliases and len(names) <= _MOST
        self._takes = len(take)

    def encode(
        self, lines: Sequence[bytes]
    ) -> tuple[list[bytes | None], tuple[list[Any], ...], dict[str, int]]:
        """The body of each line; a column for each field that is taken, as it stands there; and how
        many values of other fields were passed over in lines with a body: without name, of fields
        beyond the first few."""
        if not self.can_be:
            return [None] * len(lines), tuple([None] * len(lines) for _ in range(self._takes)), {}
        return encode(self._plan, lines if isinstance(lines, list) else list(lines))


def _kind(type_: Type) -> tuple[int, bytes, tuple[bytes, ...]]:
    match type_:
        case Primitive() if type_.kind in _KINDS and logical_type(type_) is None:
            return _KINDS.index(type_.kind), b"", ()
        case Enum() if len(type_.symbols) <= 2 * _MOST:
            return _KINDS.index("enum"), b"", tuple(each.encode() for each in type_.symbols)
        case Union() if len(type_.branches) == 2:
            kinds = [each.kind for each in type_.branches]
            if "null" in kinds:
                place = 1 - kinds.index("null")
                kind, before, symbols = _kind(type_.branches[place])
                if kind != _OTHER and not before:
                    return kind, VARINTS[place], symbols
    return _OTHER, b"", ()
