"""The shape of the repository, held: sizes, names, the map, the documentation."""

import ast
import re
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import click
import pytest

import penstock
from client.connection.connection import SOFTWARE_VERSION
from penstock.cli.lazy_group import LazyGroup
from penstock.command_line import penstock as command_line

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS = [
    "penstock",
    "pyspark_penstock",
    "agent | broker | registry | loader | audit | mirror",
    "ledger",
    "client | columns",
    "cluster | schemas",
    "wire",
    "ground",
]
TOP_LEVEL = {"penstock", "pyspark_penstock"}  # what is installed under its own name
PROGRAMS = [folder for layer in LAYERS for folder in layer.split(" | ")]
BESIDE = ["tests", "bench", "harness", "deploy", "docs"]
MODULES = sorted(chain.from_iterable((ROOT / folder).rglob("*.py") for folder in PROGRAMS))
ALL_CODE = sorted({*MODULES, *chain.from_iterable((ROOT / each).rglob("*.py") for each in BESIDE)})
CODE_MAP = ROOT / "docs/code-map.md"  # made by `make reference` when somebody wants it
REQUIREMENTS = sorted((ROOT / "requirements").iterdir())
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {CODE_MAP})

VAGUE = {"utils", "util", "common", "helpers", "helper", "misc", "base", "manager", "stuff"}
# After comments and blank lines, and not empty.
DOCSTRING = re.compile(r'(?:#.*\n|\s)*"""(?!\s*""")')
PATCHING = re.compile(r"\bmock\b|\bmonkeypatch\b")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_top_level_folders_are_known_everywhere() -> None:
    """A folder with code is a program (linted, mapped, in the wheel) or stands beside them."""
    folders = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("*/**/*.py")}
    hidden = {folder for folder in folders if folder.startswith(".")}
    assert folders - hidden - set(BESIDE) == set(PROGRAMS)
    tools, build = PYPROJECT["tool"], PYPROJECT["tool"]["hatch"]["build"]
    assert tools["importlinter"]["root_packages"] == PROGRAMS
    layers = [each for each in tools["importlinter"]["contracts"] if each["type"] == "layers"]
    assert layers[0]["layers"] == LAYERS
    assert set(PROGRAMS) <= set(tools["mypy"]["files"])
    assert set(build["only-include"]) == set(PROGRAMS)
    inside = {
        folder: f"penstock/programs/{folder}" for folder in PROGRAMS if folder not in TOP_LEVEL
    }
    assert build["targets"]["wheel"]["sources"] == inside


def test_names_say_something() -> None:
    assert [name(path) for path in ALL_CODE if set(path.stem.split("_")) & VAGUE] == []


def test_a_module_says_what_it_owns() -> None:
    written = [path for path in ALL_CODE if path.stat().st_size]
    assert [name(path) for path in written if not DOCSTRING.match(path.read_text())] == []


def test_tests_use_the_real_thing() -> None:
    tests = [path for path in ALL_CODE if path.relative_to(ROOT).parts[0] == "tests"]
    # Most say neither word anywhere, and need not be parsed to know.
    trees = {path: parsed(path) for path in tests if PATCHING.search(path.read_text())}
    assert trees
    assert [name(path) for path, tree in trees.items() if "unittest.mock" in imported(tree)] == []
    assert [name(path) for path, tree in trees.items() if patches(tree)] == []


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.Module) -> set[str]:
    """The modules that are imported, as `import` or `from` names them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def patches(tree: ast.Module) -> bool:
    """Whether a test replaces a part of what it tests. An environment may be replaced."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in {"setattr", "setitem", "delattr"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "monkeypatch"
        for node in ast.walk(tree)
    )


@pytest.mark.not_quick("reads every module")
def test_nothing_is_imported_from_tests() -> None:
    """What two files of tests share is a module or a fixture of its own."""
    shared = re.compile(r"^(?:from|import) (?:\w+\.)+(?:test_\w+)", re.MULTILINE)
    assert [name(path) for path in ALL_CODE if shared.search(path.read_text())] == []


@cache
def commands(group: LazyGroup, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {}
    for word in group.table:
        command = group.get_command(click.Context(group), word)
        assert command is not None
        found[*path, word] = command
        if isinstance(command, LazyGroup):
            found |= commands(command, (*path, word))
    return found


def test_every_command_resolves() -> None:
    assert isinstance(command_line, LazyGroup)
    entry = PYPROJECT["project"]["scripts"]["penstock"]
    assert entry == "penstock.command_line:main"
    for path, command in commands(command_line).items():
        assert command.callback is not None, path
        assert command.help, path


def test_there_is_one_version() -> None:
    assert PYPROJECT["project"]["version"] == penstock.__version__ == SOFTWARE_VERSION


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"(?:\]\(|src(?:set)?=\")([^)\"]+)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{name(page)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
            }


PROMISE = re.compile(
    r"^\W*Planned\b|Penstock's \w+(?: \w+)? is not there yet|, when it is there\b|\| not yet \|"
)


def test_pages_promise_nothing() -> None:
    promises = [
        f"{name(page)}: {line}"
        for page in PAGES
        if page.name != "CHANGELOG.md" and page.parent.name != "decisions"
        for line in page.read_text().splitlines()
        if PROMISE.search(line)
    ]
    assert promises == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_documented_commands_exist(page: Path) -> None:
    assert isinstance(command_line, LazyGroup)
    known = commands(command_line)
    targets = set(re.findall(r"^([a-z-]+):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
    for text in code:
        for target in re.findall(r"^`*make ([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{name(page)}: make {target}"
        for words in re.findall(r"\bpenstock((?: [a-z-]++)+)(?! ?…)", text):  # none that is cut
            path = tuple(words.split())
            group = command_line.table
            assert path[0] in group, f"{name(page)}: penstock {path[0]}"
            if path[0] == "topics" and len(path) > 1:
                assert path[:2] in known, f"{name(page)}: penstock {' '.join(path[:2])}"
            command = known[path[:2]] if path[:2] in known else known[path[:1]]
            line = re.split("[\n#`]", text.partition(f"penstock{words}")[2], maxsplit=1)[0]
            options = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", line))
            allowed = {option for each in command.params for option in each.opts} | {"--help"}
            if "|" not in line:
                assert options <= allowed, f"{name(page)}: penstock{words}{line}"


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    project = PYPROJECT["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    needed = {normal(re.split(r"[>=\[ ]", each)[0]) for each in wanted} - {"penstock"}
    assert needed - {normal(each) for each in re.findall(r"`([\w.-]+)`", page)} == set()
    pinned, locked = pins(ROOT / "constraints.txt"), set().union(*map(pins, REQUIREMENTS))
    assert needed - {package for package, _ in pinned} == set()
    # `make lock` renews the checksums. Kerberos is compiled, where its libraries are.
    assert {package for package, _ in pinned - locked} == {"gssapi", "decorator"}


def pins(path: Path) -> set[tuple[str, str]]:
    rows = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE)
    return {(normal(package), version) for package, version in rows}


def normal(package: str) -> str:
    """The name of a package as PyPI compares it."""
    return re.sub(r"[._]", "-", package.lower())


def test_packages_come_from_wherever_pip_says() -> None:
    """No index is named anywhere: that is for the machine that installs."""
    files = ("pyproject.toml", "constraints.txt", "Makefile", ".ci/run")
    for path in (*map(ROOT.joinpath, files), *REQUIREMENTS):
        assert not re.search(r"https?://|index-url|find-links|pypi\.", path.read_text()), path


def test_docstrings_name_modules_that_exist() -> None:
    modules = {path.name for path in ALL_CODE}
    named = re.compile(r"(?<![/\w.-])([a-z_]+\.py)\b")
    missing = {
        f"{name(path)}: {module}"
        for path in ALL_CODE
        for module in named.findall(ast.get_docstring(parsed(path)) or "")
        if module not in modules
    }
    assert missing == set()
