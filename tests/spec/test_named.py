"""Each rule, and each step that is a broker's own, is named by the code that carries it out."""

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SPECIFICATION: Final = (Path(__file__).parent / "Replication.tla").read_text()
FAULTS: Final = {"Crash", "LosePower", "LoseDisk"}
NAMED: Final = re.compile(r"Specified in docs/replication-spec\.md: (.+) \((.+)\)\.")


def named() -> tuple[set[str], set[str]]:
    """Actions and rules, by all modules."""
    actions: set[str] = set()
    rules: set[str] = set()
    for folder in ("broker", "cluster"):
        for path in (ROOT / folder).rglob("*.py"):
            said = NAMED.search(ast.get_docstring(ast.parse(path.read_text())) or "")
            if said is not None:
                actions |= set(re.findall(r"`(\w+)`", said[1]))
                rules |= set(said[2].split(", "))
    return actions, rules


def test_every_step_is_named_and_none_that_is_not_there() -> None:
    actions, _ = named()
    begin = SPECIFICATION.index("Next ==")
    steps = set(re.findall(r"\b([A-Z]\w+)", SPECIFICATION[begin : SPECIFICATION.index("Spec ==")]))
    assert actions == steps - FAULTS - {"Next", "E", "Brokers"}


def test_every_rule_is_named() -> None:
    page = (ROOT / "docs" / "replication-spec.md").read_text()
    _, rules = named()
    assert rules == set(re.findall(r"^\| (R\d+) \|", page, re.MULTILINE))
