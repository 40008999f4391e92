"""What holds for all commands: help, errors, exit codes, and how quickly they are there."""

import gc
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.server_process import free_ports
from penstock.cli.lazy_group import Lazy
from penstock.command_line import penstock as command_line
from tests.penstock.running import INTERPRETER, REPOSITORY, fresh_penstock, penstock


def test_the_commands_are_listed_with_what_they_do() -> None:
    said = penstock("--help").stdout
    for name, lazy in command_line.table.items():
        assert f"{name} " in said
        assert lazy.does in said


@pytest.mark.not_quick("starts a process")
def test_a_command_finds_what_it_needs_by_itself() -> None:
    ended = fresh_penstock("consume", "-h")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "penstock consume page_views" in ended.stdout


def imported_after(first: str, code: str, **environment: str) -> set[str]:
    """Modules that `code` imports where `first` has run already."""
    said = (
        f"import sys\n{first}\nbefore = set(sys.modules)\n{code}\n"
        "print(*set(sys.modules) - before, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", said],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stderr.split())


# What help and a Tab for a command's name may import beside what click needs for its own: each is
# a part of a millisecond, or several, for which somebody waits.
AT_ONCE = {
    *("penstock", "penstock.command_line", "penstock.cli", "penstock.cli.completion"),
    *("penstock.cli.failures", "penstock.cli.lazy_group", "penstock.cli.output"),
    *("ground", "ground.printable", "gc"),
}
CLICKS_OWN = (
    "import click, click.shell_completion, shlex\n"
    "nothing = click.Group('nothing', help='Nothing.')\n"
    "nothing.get_help(click.Context(nothing))"
)
RUN = (
    "from penstock.command_line import main\n"
    "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code"
)
GROUPS = [
    name
    for name, lazy in command_line.table.items()
    if lazy.where.startswith("penstock.command_line:")
]


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize("arguments", [[], *([each] for each in GROUPS)], ids=" ".join)
def test_help_of_a_group_imports_nothing_but_click(arguments: list[str]) -> None:
    code = f"sys.argv = {['penstock', *arguments, '--help']}\n{RUN}"
    assert imported_after(CLICKS_OWN, code) <= AT_ONCE


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize("line", ["penstock re", "penstock topics de", "penstock --"])
def test_a_tab_for_a_command_imports_nothing_but_click(line: str) -> None:
    assert imported_by_tab(line) <= AT_ONCE | {"penstock.cli.shell_scripts"}


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize(
    "line",
    [
        *("penstock consume --", "penstock produce t --codec=z", "penstock broker --"),
        *("penstock topics create --", "penstock schemas show --", "penstock up --"),
        *("penstock mirror promote --", "penstock report --", "penstock load --"),
    ],
)
def test_a_tab_for_an_option_imports_no_command(line: str) -> None:
    first = f"{CLICKS_OWN}\nimport json, pathlib"
    own = {"penstock.cli.shell_scripts", "penstock.cli.outlines"}
    assert imported_by_tab(line, first) <= AT_ONCE | own


def imported_by_tab(line: str, first: str = CLICKS_OWN) -> set[str]:
    asked = {
        "_PENSTOCK_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": line.rpartition(" ")[2],
    }
    return imported_after(first, RUN, **asked)


def test_the_version() -> None:
    assert penstock("--version").stdout == "penstock 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["brokr"],
            "penstock: there is no command 'brokr'; did you mean broker or brokers? (see",
        ),
        (
            ["topics", "lst"],
            "penstock topics: there is no command 'lst'; did you mean list? (see penstock topics",
        ),
        (["consume"], "penstock consume: missing argument 'TOPIC' (see penstock consume --help)"),
        (["consume", "t", "--from", "x"], "'x' is none of beginning, end, an offset, a time like"),
        (["consume", "t", "--count", "0"], "0 is not in the range x>=1"),
        (["produce", "t", "--acks", "2"], "'2' is not one of 'all', '1', '0'"),
        (["produce", "t", "--file", "/nowhere"], "File '/nowhere' does not exist"),
        (["topics", "create", "t", "--config", "a"], "'a' is not name=value"),
        (["topics", "alter", "t"], "nothing to change: give --config, --default or --partitions"),
        (["topics", "list", "-b", "a:b"], "bootstrap 'a:b': 'b' is not a port"),
        (["broker"], "give --config FILE, or every key with --set KEY=VALUE"),
        (["broker", "--config", "/nowhere.yaml"], "penstock: /nowhere.yaml: No such file"),
        (["broker", "--set", "id=1", "--set", "prot=1"], "--set prot: unknown key; did you mean"),
        (["broker", "--set", "id=1", "--set", "data_dir=x"], "`zookeeper` is missing: say"),
        (["zookeeper", "--data-dir", "x", "--host", "0.0.0.0"], "say `insecure: true`"),
        (["load", "--every", "1h", "--accept-gap"], "would accept all that is lost from now on"),
        (["load", "--rebuild", "dt=2026-11-20"], "--rebuild needs --topics"),
        (["load", "--check-files", "all", "--every", "1h"], "--check-files loads nothing"),
        (["load", "--check-files", "none"], "'none' is no folder such as"),
        (["check-config", "brokr", "x"], "'brokr' is not one of 'agent', 'broker', 'registry'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    ended = penstock(*arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr


def test_without_a_command_there_is_help() -> None:
    ended = penstock()
    assert ended.returncode == 2
    assert "Begin here:" in ended.stderr


@pytest.mark.parametrize("command", [["topics", "list"], ["produce", "t"], ["consume", "t"]])
def test_nobody_there_is_one_line_and_exit_code_1(command: list[str]) -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    ended = penstock(*command, "--bootstrap", bootstrap, stdin="x\n")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == f"penstock: no broker at {bootstrap}: connection refused\n"


def penstock_in_shell(redirected: str, **environment: str) -> tuple[int, str, str]:
    """`penstock …` with streams as a shell makes them."""
    ended = subprocess.run(
        ["bash", "-c", f"{shlex.join(INTERPRETER)} -m penstock {redirected}"],
        env={**os.environ, **environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_full_disk_is_one_line() -> None:
    code, _, said = penstock_in_shell("schemas --help > /dev/full")
    assert (code, said) == (1, "penstock: output: No space left on device\n")


@pytest.mark.not_quick("starts a process")
def test_streams_that_are_closed_are_no_error() -> None:
    assert penstock_in_shell("schemas --help <&- >&-") == (0, "", "")
    assert penstock_in_shell("tpics 2>&-") == (2, "", "")


@pytest.mark.not_quick("starts a process")
def test_what_a_stream_has_no_letters_for_is_escaped() -> None:
    code, said, error = penstock_in_shell("keys agent", PYTHONIOENCODING="ascii")
    assert (code, error) == (0, "")
    assert "\\u2026" in said


@pytest.mark.not_quick("starts a process")
def test_without_an_extra_its_name_is_said(tmp_path: Path) -> None:
    (tmp_path / "kazoo.py").write_text("raise ModuleNotFoundError(name='kazoo')\n")
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "broker", "--help"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "penstock: penstock broker needs kazoo: pip install 'penstock[broker]'\n"
    )


@pytest.mark.not_quick("starts a process")
def test_what_needs_no_extra_says_so_and_the_others_name_theirs() -> None:
    """In an installation without any: their packages are not to be found."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = {
        re.split(r"[>\[]", wanted)[0].replace("-", "_")
        for name, wants in project["optional-dependencies"].items()
        for wanted in wants
        if name not in {"all", "development"}
    }
    extras -= {"packaging"}  # aiokafka needs it, too
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(extras)}))\n"
        "import click\n"
        "from penstock.command_line import penstock\n"
        "def walk(group, above):\n"
        "    for name, lazy in group.table.items():\n"
        "        try:\n"
        "            command = group.get_command(above, name)\n"
        "        except click.ClickException as error:\n"
        "            print(error.format_message())\n"
        "        else:\n"
        "            if hasattr(command, 'table'):\n"
        "                walk(command, click.Context(command, parent=above, info_name=name))\n"
        "walk(penstock, click.Context(penstock, info_name='penstock'))\n"
    )
    run = [sys.executable, "-c", code]
    ended = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    needed = re.findall(
        r"^penstock ([\w ]+) needs \w+: pip install 'penstock\[(\w+)\]'$",
        ended.stdout,
        re.MULTILINE,
    )
    assert len(needed) == len(ended.stdout.splitlines())
    assert {"agent", "broker", "registry", "load", "audit", "topics recover"} <= dict(needed).keys()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_is_looked_for_after_an_import_as_before_it(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(ModuleNotFoundError):
            Lazy("penstock.cli.nowhere", "It is not there.").command()
        assert gc.isenabled() is was_enabled
        Lazy("penstock.config.keys", "Explain.").command()
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()


@pytest.mark.not_quick("starts a process")
def test_what_was_imported_is_not_looked_through_again() -> None:
    code = (
        "import gc\n"
        "from penstock.command_line import penstock\n"
        "assert gc.get_freeze_count() == 0\n"
        "penstock.table['agent'].command()\n"
        "assert gc.get_freeze_count() > 50_000 > len(gc.get_objects())\n"
    )
    run = [sys.executable, "-c", code]
    ended = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
