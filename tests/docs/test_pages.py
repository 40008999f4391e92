"""README.md and docs/: what they say to type is typed, and does what they say.

The blocks of a page are run in their order, in one bash and one folder, against one `penstock up`
that all pages share: the one with which the quick start begins. Addresses in the text are those of
a pipeline with its usual ports, and are replaced by those of this one. A `penstock` in a block is
forked from a process that has imported its commands. See pages.py for how a block says that it is
to be left alone.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from functools import cache
from pathlib import Path
from time import sleep
from typing import Final, NamedTuple

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from harness.hadoop.spark_jvm import quick_java_environment
from loader.decoding.widening import widened
from loader.run.table_form import COMMON_METADATA
from penstock.config.configuration import load
from penstock.config.reference import KINDS
from penstock.directory.places import Addresses, Places, Ports
from penstock.services.agent_configuration import load_agent, load_inputs
from tests.docs.command_lines import misunderstood, penstock_commands
from tests.docs.pages import ROOT, Block, blocks_of, pages
from tests.docs.shell import Shell, follow
from tests.penstock.running import FORKS
from tests.penstock.up.started import Up, free_base

IN_CI: Final = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
PAGES_TAKE: Final = timedelta(minutes=6)
QUICK_START: Final = ROOT / "docs" / "quick-start.md"
LANGUAGES: Final = {
    *("sh", "text", "yaml", "json", "python", "sql", "toml", "ini", "properties", "html", "java"),
    *("conf", "console", "dockerfile"),
}
BLOCKS: Final = {page: blocks_of(page) for page in pages()}
ALL: Final = [block for blocks in BLOCKS.values() for block in blocks]
RUN: Final = [page for page, blocks in BLOCKS.items() if any(block.is_run for block in blocks)]


class RunningPipeline(NamedTuple):
    """Where it is, and how blocks find it."""

    folder: Path
    addresses: Addresses

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PENSTOCK_BOOTSTRAP": self.addresses.brokers,
            "PENSTOCK_REGISTRY": self.addresses.registry,
            "PENSTOCK_AUDIT": self.addresses.audit,
            "PENSTOCK_AGENT": self.addresses.agent,
            "PENSTOCK_BROKER_HTTP": self.addresses.broker_http,
        }

    def aimed(self, text: str) -> str:
        """Text with the addresses of this pipeline in place of the usual ones."""
        for usual, ours in zip(Addresses(), self.addresses, strict=True):
            text = text.replace(usual.removeprefix("http://"), ours.removeprefix("http://"))
        return text


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def pipeline(folders: Path) -> Iterator[RunningPipeline]:
    """What the quick start's `penstock up` starts, ready; stopped by Ctrl-C."""
    _wait_past_midnight()
    folder, base = folder_of(QUICK_START, folders), free_base()
    commands = [each for block in BLOCKS[QUICK_START] for each in penstock_commands(block.text)]
    _, *arguments = next(each for each in commands if each[:1] == ["up"])
    arguments += ["--port-base", str(base), "--load-every", "10s"]
    with Up(folder / "up.log", *arguments, directory=folder) as up:
        up.until("all programs run")
        yield RunningPipeline(folder, Addresses.of(Ports.beginning_at(base)))
        up.interrupt()
        assert up.wait() == 0, up.said()


def _wait_past_midnight() -> None:
    """Pages speak of today."""
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    if (left := midnight - now) < PAGES_TAKE:
        sleep(left.total_seconds())


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the path of a shell."""
    folder = tmp_path_factory.mktemp("commands")
    FORKS.write_command(folder / "penstock")
    return folder


def folder_of(page: Path, folders: Path) -> Path:
    folder = folders / "-".join(page.relative_to(ROOT).with_suffix("").parts)
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_page_does_what_it_says(
    page: Path, pipeline: RunningPipeline, folders: Path, commands: Path
) -> None:
    folder = folder_of(page, folders)
    data = folder / "penstock-data"
    if not data.exists():
        data.symlink_to(Places(pipeline.folder / "penstock-data").directory)
    environment = {
        **pipeline.environment,
        **quick_java_environment(),
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    with Shell(folder, environment) as shell:
        follow(shell, folder, BLOCKS[page], can_be_run, pipeline.aimed)


def can_be_run(block: Block) -> bool:
    there = not block.needs or shutil.which(block.needs) is not None
    assert there or not IN_CI, f"{block.where}: there is no {block.needs}"
    return block.is_run and there


def test_every_block_says_what_it_is() -> None:
    assert [block.where for block in ALL if block.language not in LANGUAGES] == []


def test_what_is_said_of_a_block_is_known() -> None:
    known = {"run", "output", "until it succeeds"}
    unknown = [
        f"{block.where}: {remark}"
        for block in ALL
        for remark in block.remarks
        if remark not in known
        and not remark.startswith(("not run: ", "exits ", "needs "))
        and remark != block.file
    ]
    assert unknown == []


def test_the_command_line_knows_every_command() -> None:
    commands = [
        (block, arguments)
        for block in ALL
        if block.language == "sh"
        for arguments in penstock_commands(block.text)
    ]
    wrong = [
        f"{block.where}: penstock {' '.join(arguments)}: {why}"
        for block, arguments in commands
        if (why := misunderstood(arguments))
    ]
    assert wrong == []
    assert len(commands) > 50


def test_what_is_not_run_can_be_parsed() -> None:
    for block in ALL:
        match block.language:
            case "python":
                compile(block.text, block.where, "exec")
            case "yaml":
                yaml.safe_load(block.text)
            case "json":
                # A log has a document in each line.
                for document in block.text.splitlines() if block.file else [block.text]:
                    json.loads(document)


CONFIGURATIONS: Final = [block for block in ALL if block.file and block.file.endswith(".yaml")]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=lambda block: block.where)
def test_a_configuration_is_one(block: Block, tmp_path: Path) -> None:
    assert block.file
    file = tmp_path / block.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text, encoding="utf-8")
    kind = file.stem.partition("-")[0]
    if file.parent.name in {"inputs.d", "agent.d"}:
        assert load_inputs(file)
    elif kind == "agent":
        load_agent(file, ())
    else:
        load(KINDS[kind], file)


def test_the_quick_start_reads_rows_of_before_and_after_a_change_together(tmp_path: Path) -> None:
    """An int became a long, a float a double, and a field was added."""
    beyond_an_int = 3_000_000_000
    old = {"seq": pa.array([1], pa.int32()), "message": pa.array([0.5], pa.float32())}
    new = {"seq": pa.array([beyond_an_int], pa.int64()), "message": pa.array([0.1])}
    tables = [pa.table(old), pa.table({**new, "country": ["AT"]})]
    for hour, rows in enumerate(tables, 7):
        folder = tmp_path / "dt=2026-11-20" / f"hour={hour:02}"
        folder.mkdir(parents=True)
        parquet.write_table(rows, folder / f"part-local-0-{hour}-{hour + 1}-{hour}.parquet")
        (folder / "_SUCCESS").write_text("{}")
    columns = widened(*(each.schema for each in tables))  # as the loader does
    parquet.write_metadata(columns, tmp_path / COMMON_METADATA, store_schema=False)
    (code,) = [each.text for each in BLOCKS[QUICK_START] if each.language == "python"]
    wanted = code.replace("penstock-data/warehouse/shop", str(tmp_path))
    assert wanted != code
    run = [sys.executable, "-c", wanted]
    ended = subprocess.run(run, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "{'seq': 1, 'message': 0.5}",
        f"{{'seq': {beyond_an_int}, 'message': 0.1}}",
    ]


COLLECTION: Final = ROOT / "deploy/ansible"
PLAYED: Final = [each for each in ALL if each.language == "sh" and "ansible-playbook" in each.text]
_PLAYBOOK: Final = re.compile(r"\bpenstock\.pipeline\.([a-z_]+)")
_GIVEN: Final = re.compile(r"(?:-e|--extra-vars)\s+'?\{?\"?(penstock_[a-z_]+)")


@pytest.mark.parametrize("block", PLAYED, ids=lambda block: block.where)
def test_a_command_of_ansibles_names_what_there_is(block: Block) -> None:
    """Playbooks, and variables of the collection. Playing them is for tests/fleet."""
    there = {each.stem for each in (COLLECTION / "playbooks").glob("*.yml")}
    assert set(_PLAYBOOK.findall(block.text)) - there == set()
    assert set(_GIVEN.findall(block.text)) - variables() == set()


@pytest.mark.parametrize(
    ("index", "folders"),
    [("docs/README.md", (".", "how-to", "coming-from")), ("docs/decisions/README.md", (".",))],
)
def test_an_index_names_every_page_once(index: str, folders: tuple[str, ...]) -> None:
    here = (ROOT / index).parent
    links = re.findall(r"\]\(([^)#:]+\.md)\)", (ROOT / index).read_text())
    pages_here = {page for each in folders for page in (here / each).glob("*.md")}
    pages_here -= {here / "README.md", here / "code-map.md"}
    own_pages = [here / each for each in links if str(Path(each).parent) in folders]
    assert sorted(own_pages) == sorted(pages_here)


def test_there_are_commands_of_ansibles() -> None:
    named = {name for block in PLAYED for name in _PLAYBOOK.findall(block.text)}
    assert {"site", "agents", "rolling", "rollback", "retire_host"} <= named


@cache
def variables() -> frozenset[str]:
    """All that roles and playbooks ask for by name."""
    files = [file for part in ("playbooks", "roles") for file in (COLLECTION / part).rglob("*.yml")]
    return frozenset(
        name for file in files for name in re.findall(r"\bpenstock_[a-z_]+", file.read_text())
    )
