"""docs/loader.md against the code: every key and option, exit codes, and what is deployed."""

import ast
import re
import shlex
from pathlib import Path

import click
import msgspec
import pytest

from loader.commit.layout import part_path
from loader.config import LoaderConfig
from loader.decoding.columns import VALUE
from loader.errors import LoaderError
from loader.manifests import HourState
from loader.markers import late_marker, success_marker
from loader.tables import Hour
from penstock.commands.load import command
from penstock.load_summary import INTERRUPTED, NOTHING_TO_DO

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "loader.md").read_text()
UNIT = (ROOT / "deploy" / "systemd" / "penstock-load.service").read_text()
TIMER = (ROOT / "deploy" / "systemd" / "penstock-load.timer").read_text()
DAG = (ROOT / "deploy" / "airflow" / "penstock_load.py").read_text()
CONFIG = LoaderConfig(root="file:///x", topics=("a",))
UNITS = {"": 1, " MiB": 2**20, " days": 86_400}


def keys(kind: type[msgspec.Struct], prefix: str = "") -> list[str]:
    """As they are written in `--set`."""
    found = []
    for each in msgspec.structs.fields(kind):
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            found += keys(each.type, f"{prefix}{each.encode_name}.")
        else:
            found.append(f"{prefix}{each.encode_name}")
    return found


def test_every_key_is_explained() -> None:
    section = PAGE.partition("## Configuration")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `([a-z_.]+)` \|", section, re.MULTILINE))
    known = set(keys(LoaderConfig))
    assert known - {"hive"} - explained == set()
    assert explained - known == {"hive.database"}


def test_defaults_are_those_of_the_code() -> None:
    shown = re.findall(r"^\| `([a-z_.]+)` \| ([0-9.,]+)( MiB| days)? \|", PAGE, re.MULTILINE)
    assert len(shown) > 10
    for key, number, unit in shown:
        value: object = CONFIG
        for part in key.split("."):
            value = getattr(value, part)
        assert float(number.replace(",", "")) * UNITS[unit] == value, key


def test_every_option_is_explained() -> None:
    section = PAGE.partition("| option |")[2].partition("\n## ")[0]
    options = {option for each in command.params for option in each.opts}
    of_every_program = {"--config", "--set", "--help"}
    missing = [each for each in options - of_every_program if f"`{each}" not in section]
    assert missing == []


def test_every_exit_code_is_explained() -> None:
    section = PAGE.partition("## Exit codes")[2].partition("\n## ")[0]
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}

    def codes(kind: type[LoaderError]) -> set[int]:
        return {kind.exit_code}.union(*map(codes, kind.__subclasses__()))

    wrong_usage = 2
    assert explained == {0, wrong_usage, NOTHING_TO_DO, INTERRUPTED} | codes(LoaderError)


def test_names_are_those_of_the_code() -> None:
    hour = Hour(1_795_158_000_000)
    name = part_path("page_views", hour, cluster="dc1", partition=3, first=18220, end=25117, run=41)
    assert f"{{root}}/{name}.parquet" in PAGE
    state = HourState(rows=1, files=("a",))
    for marker in (success_marker("t", hour, state, 1, "agents"), late_marker("t", hour, 1, 1, [])):
        for key in msgspec.json.decode(marker.content):
            assert f"`{key}`" in PAGE, key


def test_every_reason_of_dead_letters_is_explained() -> None:
    section = PAGE.partition("### What cannot be decoded")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    modules = (ROOT / "loader" / "decoding").glob("*.py")
    code = "".join(path.read_text() for path in modules)
    constants = set(re.findall(r'^[A-Z_]+: Final = "([a-z ]+)"$', code, re.MULTILINE))
    assert explained == constants - {VALUE}


def deployed() -> dict[str, str]:
    """Commands that others run for us, by who does."""
    literals = [each.value for each in ast.walk(ast.parse(DAG)) if isinstance(each, ast.Constant)]
    (by_airflow,) = [text for text in literals if str(text).startswith("exec ")]
    (by_systemd,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    (by_cron,) = re.findall(r"^5 \* \* \* \*\s+(.*?) >>", PAGE, re.MULTILINE)
    return {
        "airflow": str(by_airflow).removeprefix("exec "),
        "systemd": by_systemd,
        "cron": by_cron,
    }


@pytest.mark.parametrize("who", ["airflow", "systemd", "cron"])
def test_what_is_deployed_is_understood(who: str) -> None:
    program, name, *arguments = shlex.split(deployed()[who])
    assert (Path(program).name, name) == ("penstock", "load")
    with command.make_context("load", arguments) as context:
        assert isinstance(context, click.Context)
        assert context.params["config"] == Path("/etc/penstock/loader.yaml")


def test_nothing_to_do_is_no_failure() -> None:
    assert f"NOTHING_TO_DO = {NOTHING_TO_DO}\n" in DAG
    assert "skip_on_exit_code=NOTHING_TO_DO" in DAG
    assert f"SuccessExitStatus={NOTHING_TO_DO} {INTERRUPTED}\n" in UNIT
    assert f"[ $? = {NOTHING_TO_DO} ]" in PAGE


def test_the_units_are_one_load_and_its_timer() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    assert settings["Type"] == "oneshot"
    assert settings["KillMode"] == "mixed"
    assert settings["User"] not in {"", "root"}
    assert "MemoryDenyWriteExecute" not in settings  # Java compiles while it runs
    timer = dict(re.findall(r"^(\w+)=(.*)$", TIMER, re.MULTILINE))
    assert timer["OnCalendar"].endswith(" UTC")
    assert timer["WantedBy"] == "timers.target"
