"""A later version of a schema, for property tests: some of what was written can be read with it."""

from typing import Any

from hypothesis import strategies as st

from tests.schemas.avro_data import PRIMITIVES, Json

PROMOTED = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
NEW_FIELDS: list[Json] = [
    {"type": "long", "default": 7},
    {"type": ["null", "string"], "default": None},
    {"type": {"type": "array", "items": "double"}, "default": [1, 2.5]},
    {"type": {"type": "map", "values": ["int", "string"]}, "default": {"a": 1}},
    {"type": {"type": "bytes", "logicalType": "decimal", "precision": 4}, "default": "\xff"},
    {"type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1},
    {"type": ["boolean", "null", "float"], "default": True},
    {"type": "int"},  # without default: old records cannot be read
]


@st.composite
def evolved(draw: st.DrawFn, schema: Json) -> Json:
    """Not always legal: names may be gone, and a union may have a type twice."""
    return _Evolving(draw).of(schema)


class _Evolving:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._added = 0

    def of(self, schema: Json) -> Json:
        chance = self._draw(st.integers(0, 19))
        if chance == 0 and not isinstance(schema, list):
            return self._union_with(schema)
        if isinstance(schema, list):
            return self._union(schema, chance)
        if isinstance(schema, str):
            return self._primitive(schema, chance)
        kind = schema["type"]
        if kind in PRIMITIVES:
            return schema if chance > 3 else self._primitive(kind, chance)
        match kind:
            case "array":
                return {**schema, "items": self.of(schema["items"])}
            case "map":
                return {**schema, "values": self.of(schema["values"])}
            case "enum":
                return self._enum(schema, chance)
            case "fixed":
                return schema if chance else {**schema, "size": schema["size"] + 1}
        return self._record(schema)

    def _primitive(self, name: str, chance: int) -> Json:
        if chance <= 4 and name in PROMOTED:
            return self._draw(st.sampled_from(PROMOTED[name]))
        return "string" if chance == 19 else name

    def _union_with(self, schema: Json) -> Json:
        others = self._draw(st.sampled_from([["null"], ["string"], ["long", "null"], ["double"]]))
        return [schema, *others] if self._draw(st.booleans()) else [*others, schema]

    def _union(self, branches: Json, chance: int) -> Json:
        made = [self.of(branch) for branch in branches]
        if chance == 0 and made:
            return self._draw(st.sampled_from(made))
        if chance < 3 and len(made) > 1:
            made.pop(self._draw(st.integers(0, len(made) - 1)))
        return list(self._draw(st.permutations(made))) if chance < 8 else made

    def _enum(self, schema: Json, chance: int) -> Json:
        symbols = list(schema["symbols"])
        made = {key: each for key, each in schema.items() if key != "default" or chance % 2}
        if chance < 8 and len(symbols) > 1:
            gone = symbols.pop()
            if made.get("default") == gone:
                made["default"] = symbols[0]
        return {**made, "symbols": ["new_symbol", *symbols]}

    def _record(self, schema: Json) -> Json:
        fields: list[Json] = []
        for field in schema["fields"]:
            fate = self._draw(st.integers(0, 9))
            if fate == 0:
                continue
            made: dict[str, Any] = {**field, "type": self.of(field["type"])}
            made.pop("aliases", None)
            if made["type"] != field["type"]:
                made.pop("default", None)
            if fate == 1:
                self._added += 1
                made |= {"name": f"renamed_{self._added}", "aliases": [field["name"]]}
            fields.append(made)
        if self._draw(st.integers(0, 2)) == 0:
            self._added += 1
            new = self._draw(st.sampled_from(NEW_FIELDS))
            fields.append({"name": f"added_{self._added}", **new})
        if self._draw(st.booleans()):
            fields = list(self._draw(st.permutations(fields)))
        return {**schema, "fields": fields}
