"""The code map: every module of the programs, with the first sentence of its docstring.

A folder is described by the docstring of its `__init__.py`, a file by the first sentence of its
own: whoever changes what a module is for changes it in one place.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "code-map.md"
_HEAD = """\
# Code map

*Every module of the programs, in its own words. Made by `make reference`;
[ARCHITECTURE.md](ARCHITECTURE.md) says how they work together.*
"""


def page() -> str:
    """What code-map.md should say."""
    return "\n".join([_HEAD, *(line for folder in _folders() for line in _section(folder))])


def _folders() -> Iterator[Path]:
    """Where the programs' code lies; the layers from the lowest on."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packages = reversed(tools["importlinter"]["root_packages"])
    for package in packages:
        files = (ROOT / package).rglob("*.py")
        yield from sorted({path.parent for path in files})


def _section(folder: Path) -> Iterator[str]:
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    if not modules:
        return
    yield f"## `{folder.relative_to(ROOT)}/`\n"
    if about := _docstring(folder / "__init__.py"):
        yield f"{_paragraph(about)}\n"
    yield "| file | |\n|---|---|"
    for path in modules:
        said = re.split(r"(?<=[.!?])\s", _paragraph(_docstring(path)), maxsplit=1)[0]
        yield f"| [`{path.name}`](../{path.relative_to(ROOT)}) | {said} |"
    yield ""


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or "" if path.exists() else ""


def _paragraph(text: str) -> str:
    """The first one, as Markdown in a table takes it."""
    joined = " ".join(text.partition("\n\n")[0].split())
    return joined.replace("|", "\\|").replace("<", "&lt;")
