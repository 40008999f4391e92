"""Many threads decode as the same types at once, also for the first time."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import sys
import threading

import msgspec

from ground.known_types import known_type

sys.setswitchinterval(1e-6)
FIELDS, PARTS = range(20), range(10)
DATA = msgspec.json.encode({f"p{part}": {f"f{each}": 1 for each in FIELDS} for part in PARTS})


def made(number):
    fields = [(f"f{each}", int) for each in FIELDS]
    parts = [msgspec.defstruct(f"Part{number}_{part}", fields) for part in PARTS]
    return msgspec.defstruct(f"Whole{number}", [(f"p{at}", each) for at, each in enumerate(parts)])


def decode(kind, begin):
    begin.wait()
    msgspec.json.decode(DATA, type=known_type(kind))


for number in range(100):
    kind, begin = made(number), threading.Barrier(4)
    threads = [threading.Thread(target=decode, args=(kind, begin)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


@pytest.mark.not_quick("starts a process")
def test_a_type_is_learnt_by_one_thread() -> None:
    """Without that, the process would die of a signal."""
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_nobody_decodes_as_a_type_that_is_not_asked_for_first() -> None:
    unasked = [
        f"{file.relative_to(ROOT)}:{kind.lineno}: {ast.unparse(kind)}"
        for folder in _programs()
        for file in sorted(folder.rglob("*.py"))
        for kind in _kinds(file)
        if not ast.unparse(kind).startswith("known_type(") and not _is_builtin(kind)
    ]
    assert unasked == []


def _is_builtin(kind: ast.expr) -> bool:
    """Made of nothing that is to be learnt."""
    names = {each.id for each in ast.walk(kind) if isinstance(each, ast.Name)}
    return names <= {"Any", "dict", "int", "list", "str"}


def _programs() -> Iterator[Path]:
    for folder in ROOT.iterdir():
        if (folder / "__init__.py").exists() and folder.name not in {"bench", "harness", "tests"}:
            yield folder


def _kinds(file: Path) -> Iterator[ast.expr]:
    text = file.read_text(encoding="utf-8")
    if "msgspec" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        given = next((each.value for each in node.keywords if each.arg == "type"), None)
        match ast.unparse(node.func):
            case "msgspec.json.decode" | "msgspec.msgpack.decode" if given is not None:
                yield given
            case "msgspec.convert":
                yield given or node.args[1]
