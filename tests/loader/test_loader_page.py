"""docs/loader*.md against the code: options, exit codes, and what is deployed.

Keys are held by tests/penstock/config.
"""

import re
import shlex
from pathlib import Path

import click
import msgspec

from loader.commit.layout import late_marker, part_path, success_marker
from loader.decoding.columns import VALUE
from loader.errors import LoaderError
from loader.values.manifests import HourState
from loader.values.tables import Hour
from penstock.services.load.command import command
from penstock.services.load.summary import INTERRUPTED, NOTHING_TO_DO

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("loader*.md")))
UNIT = (ROOT / "deploy" / "systemd" / "penstock-load.service").read_text()
TIMER = (ROOT / "deploy" / "systemd" / "penstock-load.timer").read_text()


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
    section = PAGE.partition("## What cannot be decoded")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    rooms = (ROOT / "loader" / "decoding", ROOT / "columns")
    code = "".join(path.read_text() for room in rooms for path in room.glob("*.py"))
    constants = set(re.findall(r'^[A-Z_]+: Final = "([a-z ]+)"$', code, re.MULTILINE))
    assert explained == constants - {VALUE}


def test_the_command_of_cron_is_understood() -> None:
    (command_line,) = re.findall(r"^5 \* \* \* \*\s+(.*?) >>", PAGE, re.MULTILINE)
    program, name, *arguments = shlex.split(command_line)
    assert (Path(program).name, name) == ("penstock", "load")
    with command.make_context("load", arguments) as context:
        assert isinstance(context, click.Context)
        assert context.params["config"] == Path("/etc/penstock/loader.yaml")


def test_nothing_to_do_is_no_failure() -> None:
    assert f"SuccessExitStatus={NOTHING_TO_DO} {INTERRUPTED}\n" in UNIT
    assert f"[ $? = {NOTHING_TO_DO} ]" in PAGE


def test_the_units_are_one_load_and_its_timer() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    assert settings["Type"] == "oneshot"
    assert settings["KillMode"] == "mixed"
    assert "MemoryDenyWriteExecute" not in settings  # Java compiles while it runs
    timer = dict(re.findall(r"^(\w+)=(.*)$", TIMER, re.MULTILINE))
    assert timer["OnCalendar"].endswith(" UTC")
    assert timer["WantedBy"] == "timers.target"
