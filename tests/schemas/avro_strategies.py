"""Valid Avro schemas as JSON values, and data that fits them, for property tests.

    @given(st.data())
    def test_…(data):
        schema = data.draw(schemas())                   # a JSON value, as json.loads would give it
        datum = data.draw(values(schema))               # fastavro writes it with that schema

Schemas use what the specification allows and every implementation reads: no forward references,
and no type without a namespace named from inside one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.schemas.avro_data import PRIMITIVES, TEXT, Data, Json, full_name, resolve, values

__all__ = ["json_values", "names", "schemas", "values"]

NAMESPACES = st.sampled_from([None, "", "a", "penstock.test", "b.c_2.D"])
LONG = st.integers(-(2**63), 2**63 - 1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
scalars = st.none() | st.booleans() | LONG | DOUBLE | TEXT
flat = scalars | st.lists(scalars, max_size=2) | st.dictionaries(TEXT, scalars, max_size=2)
json_values = flat | st.lists(flat, max_size=2) | st.dictionaries(TEXT, flat, max_size=2)

# Reserved for attributes of some type, or looked at by implementations where they do not belong.
TAKEN = {
    *("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "doc"),
    *("aliases", "default", "order", "logicalType", "precision", "scale", "__fastavro_parsed__"),
    *("__named_schemas", "_named_schemas", "declared_errors", "_schema"),
}
KEYS = TEXT.filter(lambda key: key not in TAKEN)
NOTHING: st.SearchStrategy[dict[str, Json]] = st.just({})
PROPERTIES = NOTHING | NOTHING | st.dictionaries(KEYS, json_values, max_size=2)

# Made once, as making a strategy takes longer than drawing from it.
LEAVES = st.sampled_from(["primitive", "primitive", "name"])
INNER = st.sampled_from(
    ["primitive", "primitive", "name", "record", "enum", "fixed", "array", "map", "union"]
)
BRANCHES = st.sampled_from(["primitive", "primitive", "name", "record", "enum", "array"])
PRIMITIVE = st.sampled_from(PRIMITIVES)
COIN = st.booleans()
UP_TO_3 = st.integers(0, 3)
SEVERAL_NAMES = st.lists(names, max_size=4, unique=True)
ALIASES = st.lists(names, max_size=2)
SYMBOLS = st.lists(names, min_size=1, max_size=4, unique=True)
OLD_NAMES = st.lists(names | names.map("old.{}".format), max_size=2)

LOGICAL: dict[str, tuple[str, ...]] = {
    "int": ("date", "time-millis"),
    "long": (
        *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
}


@dataclass
class Scope:
    """The types defined so far; `open` has the records whose definition is not finished."""

    logical: bool
    defined: dict[str, Json] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)


def schemas(*, logical: bool = True, records: bool = False) -> st.SearchStrategy[Json]:
    """`records` draws only records at the top level; `logical` includes logical types."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Json:
        scope = Scope(logical)
        kinds = ["record"] if records else ["record", "record", "any"]
        if draw(st.sampled_from(kinds)) == "record":
            return draw(_record(scope, None, 3))
        return draw(_type(scope, None, 3))

    return drawn()


@st.composite
def _type(draw: st.DrawFn, scope: Scope, namespace: str | None, depth: int) -> Json:
    kind = draw(INNER if depth > 0 else LEAVES)
    if kind == "union":
        return draw(_union(scope, namespace, depth))
    return draw(_branch(scope, namespace, depth, kind))


@st.composite
def _branch(
    draw: st.DrawFn,
    scope: Scope,
    namespace: str | None,
    depth: int,
    kind: str,
    *,
    loops: bool = False,
) -> Json:
    """Any type except a union; with `loops`, also an enclosing record, where data can end."""
    if kind == "name":
        usable = [
            full
            for full in scope.defined
            if ("." in full or not namespace) and _may(scope, full, loops)
        ]
        if usable:
            full = draw(st.sampled_from(usable))
            space, _, simple = full.rpartition(".")
            # Java takes a type without a namespace before a record whose fields it still reads.
            is_clear = simple not in PRIMITIVES and simple not in scope.defined
            if space == (namespace or "") and is_clear and draw(COIN):
                return simple
            return full
        kind = "primitive"
    if kind == "primitive":
        return draw(_primitive(scope))
    if kind in {"array", "map"}:
        inner = draw(st.sampled_from(["type", "loop"]))
        below = (
            _type(scope, namespace, depth - 1)
            if inner == "type"
            else _branch(scope, namespace, depth - 1, "name", loops=True)
        )
        made = {"type": kind, "items" if kind == "array" else "values": draw(below)}
        return made | draw(PROPERTIES)
    maker: Callable[..., st.SearchStrategy[Json]] = {
        "record": _record,
        "enum": _enum,
        "fixed": _fixed,
    }[kind]
    return draw(maker(scope, namespace, depth))


def _may(scope: Scope, full: str, loops: bool) -> bool:
    """Whether data can end without the named record, if its definition is not finished."""
    return loops or full not in scope.open


@st.composite
def _primitive(draw: st.DrawFn, scope: Scope) -> Json:
    name = draw(PRIMITIVE)
    if draw(UP_TO_3):
        return name
    made: Json = {"type": name}
    if scope.logical and name in LOGICAL and draw(COIN):
        made["logicalType"] = draw(st.sampled_from(LOGICAL[name]))
        if made["logicalType"] == "decimal":
            made |= draw(_precision(20))
    return made | draw(PROPERTIES)


@st.composite
def _precision(draw: st.DrawFn, most: int) -> Json:
    precision = draw(st.integers(1, most))
    scale = draw(st.none() | st.integers(0, precision))
    return {"precision": precision} | ({} if scale is None else {"scale": scale})


@st.composite
def _union(draw: st.DrawFn, scope: Scope, namespace: str | None, depth: int) -> Json:
    # An enclosing record may be named behind something that ends.
    taken: set[str] = set()
    union: list[Json] = []
    for place in range(1 + draw(UP_TO_3)):
        kind = draw(BRANCHES)
        if kind not in {"primitive", "name"} and depth < 1:
            kind = "primitive"
        before = dict(scope.defined)
        branch = draw(_branch(scope, namespace, depth - 1, kind, loops=place > 0))
        key = _union_key(branch, namespace, scope)
        if key not in taken:
            taken.add(key)
            union.append(branch)
        else:
            scope.defined = before  # nobody can name what stood in it
    return union


def _union_key(branch: Json, namespace: str | None, scope: Scope) -> str:
    if isinstance(branch, dict):
        if "name" not in branch:
            return str(branch["type"])
        return full_name(branch, namespace)
    return branch if branch in PRIMITIVES else resolve(branch, namespace)


@st.composite
def _named(draw: st.DrawFn, scope: Scope, namespace: str | None, kind: str) -> Json:
    """The beginning of a definition with an unused name."""

    def spelled(simple: str, space: str | None) -> Json:
        if space and draw(COIN):
            return {"name": f"{space}.{simple}"}
        return {"name": simple} | ({} if space is None else {"namespace": space})

    for _ in range(8):
        made = spelled(draw(names), draw(NAMESPACES))
        full = full_name(made, namespace)
        if full not in scope.defined and full not in PRIMITIVES:
            break
    else:
        made = {"name": f"unique.N{len(scope.defined)}"}
        full = made["name"]
    scope.defined[full] = made
    made = {"type": kind} | made
    if draw(UP_TO_3) == 0:
        made["doc"] = draw(TEXT)
    if draw(UP_TO_3) == 0:
        made["aliases"] = draw(OLD_NAMES)
    return made


@st.composite
def _enum(draw: st.DrawFn, scope: Scope, namespace: str | None, depth: int) -> Json:
    made = draw(_named(scope, namespace, "enum"))
    made["symbols"] = draw(SYMBOLS)
    if draw(COIN):
        made["default"] = draw(st.sampled_from(made["symbols"]))
    return _define(scope, namespace, made | draw(PROPERTIES))


@st.composite
def _fixed(draw: st.DrawFn, scope: Scope, namespace: str | None, depth: int) -> Json:
    made = draw(_named(scope, namespace, "fixed"))
    made["size"] = draw(st.integers(1, 9))
    if scope.logical and draw(COIN):
        kind = draw(st.sampled_from(["decimal", "uuid", "duration"]))
        made["logicalType"] = kind
        if kind == "decimal":
            made |= draw(_precision(int(math.log10(2) * (8 * made["size"] - 1))))
        else:
            made["size"] = {"uuid": 16, "duration": 12}[kind]
    return _define(scope, namespace, made | draw(PROPERTIES))


def _define(scope: Scope, namespace: str | None, made: Json) -> Json:
    scope.defined[full_name(made, namespace)] = made
    return made


@st.composite
def _record(draw: st.DrawFn, scope: Scope, namespace: str | None, depth: int) -> Json:
    made = draw(_named(scope, namespace, "record"))
    full = full_name(made, namespace)
    space = full.rpartition(".")[0]
    scope.open.add(full)
    fields: list[Json] = []
    made["fields"] = fields
    _define(scope, namespace, made)
    drawn = draw(SEVERAL_NAMES)
    fields.extend(draw(_field(scope, space, depth, name)) for name in drawn)
    scope.open.discard(full)
    made |= draw(PROPERTIES)
    return made


@st.composite
def _field(draw: st.DrawFn, scope: Scope, namespace: str, depth: int, name: str) -> Json:
    of = draw(_type(scope, namespace, depth - 1))
    made = {"name": name, "type": of}
    extras = draw(st.integers(0, 7))
    if extras & 1 and not _meets_open(of, scope, namespace, set()):
        first = of[0] if isinstance(of, list) else of
        data = Data(scope.defined, as_json=True)
        made["default"] = draw(data.of(first, namespace, 0))
    if extras & 2:
        made["doc"] = draw(TEXT)
        made["order"] = draw(st.sampled_from(["ascending", "descending", "ignore"]))
    if extras & 4:
        made["aliases"] = draw(ALIASES)
        made |= draw(PROPERTIES)
    return made


def _meets_open(of: Json, scope: Scope, namespace: str | None, seen: set[str]) -> bool:
    """Whether a default might contain a record with unknown fields."""
    if isinstance(of, list):
        return any(_meets_open(branch, scope, namespace, seen) for branch in of)
    if isinstance(of, str):
        if of in PRIMITIVES:
            return False
        full = resolve(of, namespace)
        of = scope.defined[full]
    elif "name" in of:
        full = full_name(of, namespace)
    else:
        below = [of[key] for key in ("items", "values") if key in of]
        return any(_meets_open(each, scope, namespace, seen) for each in below)
    if full in seen:
        return False
    seen.add(full)
    space = full.rpartition(".")[0]
    return full in scope.open or any(
        _meets_open(each["type"], scope, space, seen) for each in of.get("fields", ())
    )
