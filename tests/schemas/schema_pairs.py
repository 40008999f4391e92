"""Two schemas, the second grown from the first: what a team does to a schema in a year, at random.

A schema is held as a graph: `types` by key, which name each other by key. Written out, each is
defined where it is first used. So definitions change, vanish and move without leaving names that
mean nothing.
"""

import copy
from contextlib import suppress
from random import Random
from typing import Any, Final

PRIMITIVES: Final = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL: Final[list[dict[str, Any]]] = [
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "int", "logicalType": "date"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
]
FIELDS: Final = ["a", "b", "c", "d", "e"]
SYMBOLS: Final = ["RED", "GREEN", "BLUE", "GREY"]

Expression = Any  # a primitive's name, {"ref": key}, an array, a map, a logical type or a list


class Pair:
    """Makes a schema and its successor. All that is random comes from `random`."""

    def __init__(self, random: Random, *, size: int = 4) -> None:
        self._random = random
        self._left = size
        # Apache's avro does not know an empty namespace inside another, so they do not meet.
        self._namespaces: list[str | None] = [None] if random.random() < 0.5 else ["x", "x.y"]
        self.types: dict[str, dict[str, Any]] = {}
        self.root: Expression = self._expression(0)

    def text(self) -> Any:
        """The schema as JSON."""
        return _Written(self.types).expression(self.root, None)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _expression(self, depth: int, *, in_union: bool = False) -> Expression:
        pick = self._random.random()
        if self.types and pick < 0.2:
            return {"ref": self._random.choice(list(self.types))}
        if self._left > 0 and (depth == 0 or pick < 0.5):
            return self._named(depth)
        if depth < 4 and pick < 0.62:
            return {"type": "array", "items": self._expression(depth + 1)}
        if depth < 4 and pick < 0.7:
            return {"type": "map", "values": self._expression(depth + 1)}
        if depth < 4 and pick < 0.85 and not in_union:
            count = self._random.randint(1, 3)
            return [self._expression(depth + 1, in_union=True) for _ in range(count)]
        if pick < 0.9:
            return copy.deepcopy(self._random.choice(LOGICAL))
        return self._random.choice(PRIMITIVES)

    def _named(self, depth: int) -> Expression:
        self._left -= 1
        key = f"T{len(self.types)}"
        kind = self._random.choices(["record", "enum", "fixed"], [4, 1, 1])[0]
        namespace = self._random.choice(self._namespaces)
        made: dict[str, Any] = {"kind": kind, "name": key, "namespace": namespace, "aliases": []}
        self.types[key] = made
        if kind == "enum":
            count = self._random.randint(1, len(SYMBOLS))
            made["symbols"] = self._random.sample(SYMBOLS, count)
            made["default"] = self._chance(0.3)
        elif kind == "fixed":
            made["size"] = self._random.randint(1, 3)
        else:
            names = self._random.sample(FIELDS, self._random.randint(0, 4))
            made["fields"] = [self._field(name, depth) for name in names]
        return {"ref": key}

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        expression = self._expression(depth + 1)
        return {"name": name, "type": expression, "default": self._chance(0.4), "aliases": []}

    def grow(self, changes: int) -> None:
        """Changes it in place, `changes` times."""
        for _ in range(changes):
            reached = self._reached()
            if not reached or self._chance(0.15):
                self.root = self._changed(self.root)
            else:
                self._change_type(self.types[self._random.choice(reached)])

    def _reached(self) -> list[str]:
        written = _Written(self.types)
        written.expression(self.root, None)
        return list(written.defined)

    def _change_type(self, made: dict[str, Any]) -> None:
        if self._chance(0.2):
            self._rename(made)
        elif made["kind"] == "enum":
            self._change_enum(made)
        elif made["kind"] == "fixed":
            made["size"] = self._random.randint(1, 3)
        else:
            self._change_fields(made["fields"])

    def _rename(self, made: dict[str, Any]) -> None:
        before = ".".join(filter(None, [made["namespace"], made["name"]]))
        if self._chance(0.5):
            made["namespace"] = self._random.choice(self._namespaces)
        else:
            made["name"] = self._random.choice(["T0", "T1", "T2", made["name"] + "b"])
        if self._chance(0.6):
            made["aliases"] = self._random.choice(
                [[before], [before.rpartition(".")[2]], ["Other"]]
            )

    def _change_enum(self, made: dict[str, Any]) -> None:
        if self._chance(0.4):
            made["default"] = not made["default"]
        else:
            count = self._random.randint(1, len(SYMBOLS))
            made["symbols"] = self._random.sample(SYMBOLS, count)

    def _change_fields(self, fields: list[dict[str, Any]]) -> None:
        unused = [name for name in FIELDS if name not in {field["name"] for field in fields}]
        what = self._random.randrange(7)
        if unused and (what == 0 or not fields):
            self._left += 1
            fields.insert(
                self._random.randint(0, len(fields)), self._field(self._random.choice(unused), 2)
            )
        elif not fields:
            return
        elif what == 1:
            fields.pop(self._random.randrange(len(fields)))
        elif what == 2:
            self._random.shuffle(fields)
        elif what == 3 and unused:
            field = self._random.choice(fields)
            before, field["name"] = field["name"], self._random.choice(unused)
            if self._chance(0.7):
                field["aliases"] = [before, *(["z"] if self._chance(0.2) else [])]
        elif what == 4:
            field = self._random.choice(fields)
            field["default"] = not field["default"]
        else:
            field = self._random.choice(fields)
            field["type"] = self._changed(field["type"])

    def _changed(self, expression: Expression) -> Expression:
        if isinstance(expression, list):
            return self._changed_union(expression)
        if isinstance(expression, dict) and self._chance(0.6):
            for part in ("items", "values"):
                if part in expression:
                    return {**expression, part: self._changed(expression[part])}
        pick = self._random.random()
        if pick < 0.3:
            return [expression, self._expression(2, in_union=True)]
        if pick < 0.5:
            return ["null", expression]
        if pick < 0.7:
            return self._random.choice(PRIMITIVES)
        self._left += 1
        return self._expression(2)

    def _changed_union(self, branches: list[Expression]) -> Expression:
        branches = list(branches)
        what = self._random.randrange(5)
        if what == 0:
            self._random.shuffle(branches)
        elif what == 1:
            branches.append(self._expression(2, in_union=True))
        elif what == 2 and len(branches) > 1:
            branches.pop(self._random.randrange(len(branches)))
        elif what == 3 and branches:
            return self._random.choice(branches)
        elif branches:
            at = self._random.randrange(len(branches))
            changed = self._changed(branches[at])
            branches[at : at + 1] = changed if isinstance(changed, list) else [changed]
        return branches


class _Written:
    """A graph, written out once. A type that would take another's name is called by its key."""

    def __init__(self, types: dict[str, dict[str, Any]]) -> None:
        self._types = types
        self.defined: dict[str, str] = {}

    def expression(self, expression: Expression, namespace: str | None) -> Any:
        if isinstance(expression, str):
            return expression
        if isinstance(expression, list):
            return self._union(expression, namespace)
        if "ref" in expression:
            return self._named(expression["ref"], namespace)
        parts = {"items", "values"} & expression.keys()
        return expression | {part: self.expression(expression[part], namespace) for part in parts}

    def _union(self, branches: list[Expression], namespace: str | None) -> Any:
        written: dict[str, Any] = {}
        flat = list(branches)
        while flat:
            branch = flat.pop(0)
            if isinstance(branch, list):
                flat[:0] = branch
                continue
            kind = branch if isinstance(branch, str) else branch.get("ref") or branch["type"]
            if kind not in written:
                written[kind] = self.expression(branch, namespace)
        return list(written.values())

    def _named(self, key: str, namespace: str | None) -> Any:
        if key in self.defined:
            return self.defined[key]
        made = self._types[key]
        full_name = ".".join(filter(None, [made["namespace"], made["name"]]))
        if made["name"] in {each.rpartition(".")[2] for each in self.defined.values()}:
            full_name = ".".join(filter(None, [made["namespace"], key + "k"]))
        self.defined[key] = full_name
        space, _, name = full_name.rpartition(".")
        written: dict[str, Any] = {"type": made["kind"], "name": name}
        # An empty namespace ends the surrounding one.
        if space != (namespace or ""):
            written["namespace"] = space
        if made["aliases"]:
            written["aliases"] = made["aliases"]
        if made["kind"] == "fixed":
            written["size"] = made["size"]
        elif made["kind"] == "enum":
            written["symbols"] = made["symbols"]
            if made["default"]:
                written["default"] = made["symbols"][0]
        else:
            # A field that was renamed gives up its alias if another takes its name.
            taken = {field["name"] for field in made["fields"]}
            written["fields"] = [self._field(field, space, taken) for field in made["fields"]]
        return written

    def _field(self, field: dict[str, Any], namespace: str | None, taken: set[str]) -> Any:
        written = {"name": field["name"], "type": self.expression(field["type"], namespace)}
        aliases = [alias for alias in field["aliases"] if alias not in taken]
        if aliases:
            written["aliases"] = aliases
            taken.update(aliases)
        if field["default"]:
            # A record that contains itself has none.
            with suppress(RecursionError):
                written["default"] = self._default(field["type"], 8)
        return written

    def _default(self, expression: Expression, depth: int) -> Any:
        if depth == 0:
            raise RecursionError
        if isinstance(expression, list):
            return self._default(expression[0], depth)
        if isinstance(expression, dict):
            if "ref" not in expression:
                return {"array": [], "map": {}}.get(
                    expression["type"], _PLAIN.get(expression["type"])
                )
            made = self._types[expression["ref"]]
            if made["kind"] == "enum":
                return made["symbols"][0]
            if made["kind"] == "fixed":
                return "\x00" * made["size"]
            return {f["name"]: self._default(f["type"], depth - 1) for f in made["fields"]}
        return _PLAIN[expression]


_PLAIN: Final[dict[str, Any]] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 8,
    "float": 0.5,
    "double": 0.25,
    "bytes": "b",
    "string": "s",
}
