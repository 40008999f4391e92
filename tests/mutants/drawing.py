"""Mutants of Python code: small changes that a test should notice, and a draw of some of them.

A mutant replaces an exact range of a module's text, so nothing else of it is reformatted. It is
known by its function, the text of its line and what is replaced there, so that it is found again
where lines have moved. What tests are not about is left alone: annotations, decorators, the
parameters of a class, `if TYPE_CHECKING`, calls that log, `__repr__`, and what is inside f-strings,
whose positions differ from one Python to the next.
"""

import ast
import io
import random
import tokenize
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple

import msgspec

MOST: Final = 60
LEAST: Final = 2  # of each package


class Kind(StrEnum):
    """What is changed."""

    COMPARISON = "comparison"
    BOOLEAN = "and/or"
    NOT = "not removed"
    ARITHMETIC = "arithmetic"
    INTEGER = "integer"
    TRUTH = "True/False"
    RETURN = "return None"
    LOOP = "break/continue"
    REMOVAL = "statement removed"
    CONDITION = "if forced"


_ORDER: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_SETS: Final = {"in": "not in", "not in": "in", "is": "is not", "is not": "is"}
_SUMS: Final = {"+": "-", "-": "+", "*": "//", "//": "*", "/": "*", "%": "//", "**": "*"}
_BITS: Final = {"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}
_OPERATORS: Final = {**_ORDER, **_SETS, **_SUMS, **_BITS, "and": "or", "or": "and"}
_LOGS: Final = {"log", "_log"}
_LEVELS: Final = {"debug", "info", "warning", "error", "exception", "critical", "log"}


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one module."""

    path: str
    line: int  # where it was when this was written
    function: str  # its qualified name; of code outside of any, that of the class, or nothing
    text: str  # the line on which the change begins
    kind: Kind
    before: str
    after: str
    occurrence: int = 0  # among those in the module that are alike in all of this

    @property
    def place(self) -> tuple[str, ...]:
        return (self.path, self.function, self.text, self.kind, self.before, self.after)

    @property
    def identity(self) -> tuple[object, ...]:
        """What stays the same where only lines have moved."""
        return (*self.place, self.occurrence)


class Edit(NamedTuple):
    """A mutant in the text of its module."""

    mutant: Mutant
    start: int
    end: int

    def apply(self, text: str) -> str:
        return text[: self.start] + self.mutant.after + text[self.end :]


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """What was drawn, and by which seed."""

    seed: str  # the hash of a commit
    possible: dict[str, int]  # mutants of each package
    mutants: list[Mutant]


def edits(path: str, text: str) -> list[Edit]:
    """All possible mutants of a module, in the order of their places."""
    reader = _Reader(text)
    alike: Counter[tuple[str, ...]] = Counter()
    found = []
    for start, end, kind, after, function in sorted(reader.read(ast.parse(text))):
        line = bisect_right(reader.starts, start)
        mutant = Mutant(
            path=path,
            line=line,
            function=function,
            text=reader.lines[line - 1].strip(),
            kind=kind,
            before=text[start:end],
            after=after,
        )
        place = mutant.place
        found.append(Edit(msgspec.structs.replace(mutant, occurrence=alike[place]), start, end))
        alike[place] += 1
    return found


def find(mutant: Mutant, text: str) -> Edit | None:
    """Where it is in its module now; nothing, if the code there has changed."""
    found = (each for each in edits(mutant.path, text) if each.mutant.identity == mutant.identity)
    return next(found, None)


def draw(possible: Mapping[str, Sequence[Mutant]], seed: str, most: int = MOST) -> Draw:
    """Draws a package by its number of mutants, then one of these, all with the same chance; each
    package at least twice."""
    chance = random.Random(seed)
    packages = sorted(possible)
    sizes = {each: len(possible[each]) for each in packages}
    counts = Counter(dict.fromkeys(packages, LEAST))
    counts.update(chance.choices(packages, list(sizes.values()), k=max(0, most - counts.total())))
    drawn: list[Mutant] = []
    for package in packages:
        taken = chance.sample(possible[package], min(counts[package], sizes[package]))
        drawn += sorted(taken, key=lambda each: (each.path, each.line))
    return Draw(seed=seed, possible=sizes, mutants=drawn)


_Change = tuple[Kind, tuple[int, int], str]  # where from and to, and what comes there


class _Found(NamedTuple):
    start: int
    end: int
    kind: Kind
    after: str
    function: str


class _Reader:
    """Finds mutants in the tree of a module. Positions are those of characters in its text."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        self._words = [
            (self.starts[each.start[0] - 1] + each.start[1], each.string)
            for each in tokenize.generate_tokens(io.StringIO(text).readline)
            if each.type in {tokenize.OP, tokenize.NAME} and each.string not in {"(", ")"}
        ]

    def read(self, node: ast.AST, function: str = "") -> Iterator[_Found]:
        for kind, (start, end), after in self._changes(node):
            yield _Found(start, end, kind, after, function)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".removeprefix(".")
        for part in _parts(node):
            yield from self.read(part, function)

    def _changes(self, node: ast.AST) -> Iterator[_Change]:
        match node:
            case ast.Compare(left, _, operands):
                for pair in pairwise([left, *operands]):
                    yield from self._swapped(Kind.COMPARISON, *pair)
            case ast.BoolOp(_, operands):
                for pair in pairwise(operands):
                    yield from self._swapped(Kind.BOOLEAN, *pair)
            case ast.BinOp(left, _, right) | ast.AugAssign(left, _, right):
                yield from self._swapped(Kind.ARITHMETIC, left, right)
            case ast.UnaryOp(ast.Not()):
                start, _ = self._range(node)
                yield Kind.NOT, (start, start + len("not")), ""
            case ast.Constant(bool(value)):
                yield Kind.TRUTH, self._range(node), str(not value)
            case ast.Constant(int(value)):
                for changed in (value - 1, value + 1):
                    yield Kind.INTEGER, self._range(node), str(changed)
            case ast.Return(ast.Constant(None | False)):
                pass
            case ast.Return(ast.expr() as returned):
                yield Kind.RETURN, self._range(returned), "None"
            case ast.Break():
                yield Kind.LOOP, self._range(node), "continue"
            case ast.Continue():
                yield Kind.LOOP, self._range(node), "break"
            case ast.If(test) if not _is_about_types(node):
                for forced in ("False", "True"):
                    yield Kind.CONDITION, self._range(test), forced
        if isinstance(node, ast.stmt) and _can_go(node):
            yield Kind.REMOVAL, self._range(node), "pass"

    def _swapped(self, kind: Kind, left: ast.expr, right: ast.expr) -> Iterator[_Change]:
        """An operator has no position of its own: it is between its operands."""
        first = bisect_left(self._words, (self._range(left)[1], ""))
        end = bisect_left(self._words, (self._range(right)[0], ""))
        words = self._words[first:end]
        operator = " ".join(word for _, word in words)
        assigns = "=" if operator not in _OPERATORS else ""
        if after := _OPERATORS.get(operator.removesuffix(assigns)):
            start, last = words[-1]
            yield kind, (words[0][0], start + len(last)), after + assigns

    def _range(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = self._position(node.lineno, node.col_offset)
        return first, self._position(node.end_lineno, node.end_col_offset)

    def _position(self, line: int, column: int) -> int:
        """The parser counts bytes of a line."""
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column


def _parts(node: ast.AST) -> Iterable[ast.AST]:
    """What may be changed inside it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = filter(None, [*node.args.defaults, *node.args.kw_defaults])
            return () if node.name == "__repr__" else chain(defaults, node.body)
        case ast.ClassDef():
            return node.body
        case ast.AnnAssign():
            return filter(None, [node.target, node.value])
        case ast.If() if _is_about_types(node):
            return node.orelse
        case ast.JoinedStr():
            return ()
    return () if _logs(node) else ast.iter_child_nodes(node)


def _can_go(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(ast.Call() as call) | ast.Expr(ast.Await(ast.Call() as call)):
            return not _logs(call)
        case ast.Assign(targets):
            return any(isinstance(each, ast.Attribute) for each in targets)
        case ast.AnnAssign(ast.Attribute(), value=ast.expr()):
            return True
    return isinstance(node, ast.AugAssign | ast.Raise)


def _is_about_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _logs(node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Attribute(ast.Name(name) | ast.Attribute(attr=name), level)):
            return name in _LOGS and level in _LEVELS
    return False
