"""Mutants: which there are, where, and which are drawn."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.mutants.drawing import LEAST, Draw, Kind, Mutant, draw, edits, find

ROOT = Path(__file__).resolve().parents[2]
DRAWN = msgspec.json.decode(Path(__file__).with_name("drawn.json").read_bytes(), type=Draw)
KINDS = {
    "x = a < b <= c": (Kind.COMPARISON, ["x = a <= b <= c", "x = a < b < c"]),
    "x = (a) != (b)": (Kind.COMPARISON, ["x = (a) == (b)"]),
    "x = a not in b": (Kind.COMPARISON, ["x = a in b"]),
    "x = a is (b)": (Kind.COMPARISON, ["x = a is not (b)"]),
    "x = 'ü' > a": (Kind.COMPARISON, ["x = 'ü' >= a"]),
    "x = (a  # <\n  and b)": (Kind.BOOLEAN, ["x = (a  # <\n  or b)"]),
    "x = a or b or c": (Kind.BOOLEAN, ["x = a and b or c", "x = a or b and c"]),
    "x = not a": (Kind.NOT, ["x =  a"]),
    "x = (a + b) * c": (Kind.ARITHMETIC, ["x = (a - b) * c", "x = (a + b) // c"]),
    "x -= a": (Kind.ARITHMETIC, ["x += a"]),
    "x <<= a": (Kind.ARITHMETIC, ["x >>= a"]),
    "x = a[0x10]": (Kind.INTEGER, ["x = a[15]", "x = a[17]"]),
    "f(True)": (Kind.TRUTH, ["f(False)"]),
    "def f(): return (a)": (Kind.RETURN, ["def f(): return (None)"]),
    "for a in b: break": (Kind.LOOP, ["for a in b: continue"]),
    "for a in b: continue": (Kind.LOOP, ["for a in b: break"]),
    "await f(\n  a)": (Kind.REMOVAL, ["pass"]),
    "a.b = c": (Kind.REMOVAL, ["pass"]),
    "a.b: int = c": (Kind.REMOVAL, ["pass"]),
    "a += b": (Kind.REMOVAL, ["pass"]),
    "raise A from b": (Kind.REMOVAL, ["pass"]),
    "if a:\n  b\nelif c:\n  d": (
        Kind.CONDITION,
        [f"if {value}:\n  b\nelif c:\n  d" for value in ("False", "True")]
        + [f"if a:\n  b\nelif {value}:\n  d" for value in ("False", "True")],
    ),
}
LEFT_ALONE = [
    '"""A docstring."""',
    "x: Final[Literal[1]]",
    "def f(a: A[1] = b) -> B[2]: pass",
    "@cache(1)\ndef f(): pass",
    "class A(B, frozen=True): pass",
    "def f(): return None",
    "if TYPE_CHECKING:\n  f(1)",
    "log.info('%d', a + b)",
    "self._log.warning('%d', 1)",
    "def __repr__(self): return 1",
    "x = f'{a + 1}'",
    "x = a @ b",
]
MODULE = """\
class A:
    def f(self, b):
        if b == 1:
            return 1
        if b == 1:
            return 2
"""


@pytest.mark.parametrize("text", KINDS)
def test_each_kind_replaces_what_it_is_about(text: str) -> None:
    kind, changed = KINDS[text]
    assert [each.apply(text) for each in edits("a.py", text) if each.mutant.kind is kind] == changed


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_left_alone(text: str) -> None:
    assert edits("a.py", text) == []


def test_a_mutant_is_found_where_its_lines_have_moved_to() -> None:
    comparisons = [each for each in edits("a.py", MODULE) if each.mutant.kind is Kind.COMPARISON]
    second = comparisons[1].mutant
    assert (second.line, second.function, second.occurrence) == (5, "A.f", 1)
    moved = find(second, f"x = 1 == 2\n{MODULE}")
    assert moved is not None
    assert moved.apply(f"x = 1 == 2\n{MODULE}").splitlines()[5].strip() == "if b != 1:"
    assert find(second, MODULE.replace("def f", "def g")) is None
    assert find(second, MODULE.replace("b == 1", "b == 2")) is None
    assert find(second, MODULE.replace("if b == 1", "while b == 1", 1)) is None


def test_each_package_is_drawn_from() -> None:
    def some(package: str, count: int) -> list[Mutant]:
        text = "\n".join(f"a[{number}]" for number in range(2, 2 + count // 2))
        return [each.mutant for each in edits(f"{package}/a.py", text)]

    possible = {"large": some("large", 1800), "small": some("small", 200), "tiny": some("tiny", 2)}
    drawn = draw(possible, "a seed")
    assert drawn == draw(possible, "a seed") != draw(possible, "another")
    counts = Counter(each.path.partition("/")[0] for each in drawn.mutants)
    assert counts["large"] > 40 > counts["small"] >= LEAST == counts["tiny"]
    assert len({each.identity for each in drawn.mutants}) == counts.total()


@pytest.mark.not_quick("reads every module of which one was drawn")
def test_what_was_drawn_compiles() -> None:
    assert len(DRAWN.mutants) == 60
    for mutant in DRAWN.mutants:
        path = ROOT / mutant.path
        text = path.read_text() if path.exists() else ""
        if edit := find(mutant, text):
            assert edit.apply(text) != text
            compile(edit.apply(text), mutant.path, "exec")
