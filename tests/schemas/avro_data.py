"""Data for an Avro schema, which is a JSON value as json.loads returns it."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Json = Any
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
MAX_DEPTH = 4  # how deep data go into recursive types


def full_name(definition: Json, namespace: str | None) -> str:
    name = str(definition["name"])
    if "." in name:
        return name
    space = definition.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def resolve(name: str, namespace: str | None) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Data that fastavro accepts for this schema. Logical types are numbers, strings and bytes in
    the range that fastavro can convert to dates and decimals.
    """
    defined: dict[str, Json] = {}
    _collect(schema, None, defined)
    return Data(defined, as_json=False).of(schema, None, 0)


def _collect(schema: Json, namespace: str | None, defined: dict[str, Json]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, defined)
    elif isinstance(schema, dict):
        if "name" in schema:
            full = full_name(schema, namespace)
            defined[full] = schema
            namespace = full.rpartition(".")[0]
        for each in schema.get("fields", ()):
            _collect(each["type"], namespace, defined)
        for key in ("items", "values"):
            if key in schema:
                _collect(schema[key], namespace, defined)


@dataclass
class Data:
    """Data of types, whose names are in `defined`; `as_json` gives the form of defaults."""

    defined: dict[str, Json]
    as_json: bool

    def of(self, schema: Json, namespace: str | None, depth: int) -> st.SearchStrategy[Any]:
        if isinstance(schema, list):
            if self.as_json or depth > MAX_DEPTH:
                return self.of(schema[0], namespace, depth)
            branches = [st.deferred(lambda s=s: self.of(s, namespace, depth + 1)) for s in schema]
            return st.one_of(branches)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return self._primitive(schema, {})
            full = resolve(schema, namespace)
            return self._complex(self.defined[full], full, depth)
        if schema["type"] in PRIMITIVES:
            return self._primitive(schema["type"], schema)
        if "name" in schema:
            return self._complex(schema, full_name(schema, namespace), depth)
        if schema["type"] == "array":
            most = 0 if depth > MAX_DEPTH else 2
            return self._list(schema["items"], namespace, depth, most)
        most = 0 if depth > MAX_DEPTH else 2
        return self._list(schema["values"], namespace, depth, most).flatmap(
            lambda got: st.lists(TEXT, min_size=len(got), max_size=len(got), unique=True).map(
                lambda keys: dict(zip(keys, got, strict=True))
            )
        )

    def _list(
        self, of: Json, namespace: str | None, depth: int, most: int
    ) -> st.SearchStrategy[list[Any]]:
        if most == 0:
            return st.just([])
        inner = st.deferred(lambda: self.of(of, namespace, depth + 1))
        return st.lists(inner, max_size=most)

    def _complex(self, schema: Json, full: str, depth: int) -> st.SearchStrategy[Any]:
        space = full.rpartition(".")[0]
        if schema["type"] == "record":
            return st.fixed_dictionaries(
                {
                    each["name"]: st.deferred(
                        lambda each=each: self.of(each["type"], space, depth + 1)
                    )
                    for each in schema["fields"]
                }
            )
        if schema["type"] == "enum":
            return st.sampled_from(schema["symbols"])
        size = schema["size"]
        if schema.get("logicalType") == "decimal":
            return self._decimal(schema, size)
        return self._bytes(st.binary(min_size=size, max_size=size))

    def _bytes(self, made: st.SearchStrategy[bytes]) -> st.SearchStrategy[Any]:
        return made.map(lambda raw: raw.decode("latin-1")) if self.as_json else made

    def _decimal(self, schema: Json, size: int) -> st.SearchStrategy[Any]:
        most = 10 ** schema["precision"] - 1
        return self._bytes(
            st.integers(-most, most).map(
                lambda unscaled: unscaled.to_bytes(size, "big", signed=True)
            )
        )

    def _primitive(self, name: str, schema: Json) -> st.SearchStrategy[Any]:
        match schema.get("logicalType"), name:
            case "decimal", "bytes":
                return self._decimal(schema, 10)
            case "uuid", "string":
                return st.uuids().map(str)
            case "date", "int":
                return st.integers(-10_000, 40_000)
            case "time-millis", "int":
                return st.integers(0, 86_399_999)
            case "time-micros", "long":
                return st.integers(0, 86_399_999_999)
            case str(logical), "long" if "timestamp" in logical:
                unit = logical.rpartition("-")[2]
                return st.integers(0, 4 * 10 ** {"millis": 12, "micros": 15, "nanos": 18}[unit])
        return {
            "null": st.none(),
            "boolean": st.booleans(),
            "int": INT,
            "long": LONG,
            "float": FLOAT,
            "double": DOUBLE,
            "bytes": self._bytes(st.binary(max_size=8)),
            "string": TEXT,
        }[name]
