"""README.md and docs/: what they say to type is typed, and does what they say.

The blocks of a page are run in their order, in one bash and one folder, against one `penstock up`
that all pages share: the one with which the quick start begins. Addresses in the text are those of
a pipeline with its usual ports, and are replaced by those of this one. See pages.py for how a
block says that it is to be left alone.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
import yaml

from harness.spark_jvm import quick_java_environment
from penstock.config.configuration import load
from penstock.config.reference import KINDS
from penstock.services.agent_configuration import load_agent, load_inputs
from tests.docs.command_lines import misunderstood, penstock_commands
from tests.docs.output import missing_line
from tests.docs.pages import ROOT, Block, blocks_of, pages
from tests.docs.running_pipeline import COMMANDS, RunningPipeline, running_pipeline
from tests.docs.shell import Shell

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
QUICK_START = ROOT / "docs" / "quick-start.md"
LANGUAGES = {
    *("sh", "text", "yaml", "json", "python", "sql", "toml", "ini", "properties", "html", "java"),
    *("conf", "console", "dockerfile"),
}
BLOCKS = {page: blocks_of(page) for page in pages()}
ALL = [block for blocks in BLOCKS.values() for block in blocks]
RUN = [page for page, blocks in BLOCKS.items() if any(block.is_run for block in blocks)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def where(block: Block) -> str:
    return block.where


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def pipeline(folders: Path) -> Iterator[RunningPipeline]:
    folder = folder_of(QUICK_START, folders)
    commands = [each for block in BLOCKS[QUICK_START] for each in penstock_commands(block.text)]
    up = next(each for each in commands if each[:1] == ["up"])
    with running_pipeline(folder, up) as running:
        yield running


def folder_of(page: Path, folders: Path) -> Path:
    folder = folders / "-".join(page.relative_to(ROOT).with_suffix("").parts)
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("page", RUN, ids=name)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_page_does_what_it_says(page: Path, pipeline: RunningPipeline, folders: Path) -> None:
    folder = folder_of(page, folders)
    data = folder / "penstock-data"
    if not data.exists():
        data.symlink_to(pipeline.places.directory)
    environment = {
        **pipeline.environment,
        **quick_java_environment(),
        "PATH": f"{COMMANDS}:{os.environ['PATH']}",
        "HOME": str(folder),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    printed = ""
    with Shell(folder, environment) as shell:
        for block, following in zip_longest(BLOCKS[page], BLOCKS[page][1:]):
            text = pipeline.aimed(block.text)
            if block.is_output:
                missing = missing_line(text, printed)
                assert missing is None, f"{block.where}: not printed: {missing}\n{printed}"
            elif block.file:
                (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.file).write_text(text, encoding="utf-8")
            elif block.is_run and can_be_run(block):
                wanted = following.text if following and following.is_output else ""
                printed = run(shell, block, text, folder, pipeline.aimed(wanted))


def can_be_run(block: Block) -> bool:
    there = not block.needs or shutil.which(block.needs) is not None
    assert there or not IN_CI, f"{block.where}: there is no {block.needs}"
    return there


def run(shell: Shell, block: Block, text: str, folder: Path, wanted: str) -> str:
    if block.language == "python":
        script = folder / "example.py"
        script.write_text(text, encoding="utf-8")
        text = f"{sys.executable} {script}\n"
    try:
        return shell.run(
            text, exit_code=block.exit_code, tried_again=block.is_tried_again, wanted=wanted
        )
    except AssertionError as error:
        raise AssertionError(f"{block.where}: {error}") from None


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
    shell = [block for block in ALL if block.language == "sh"]
    wrong = [
        f"{block.where}: penstock {' '.join(arguments)}: {why}"
        for block in shell
        for arguments in penstock_commands(block.text)
        if (why := misunderstood(arguments))
    ]
    assert wrong == []
    assert sum(1 for block in shell for _ in penstock_commands(block.text)) > 50


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


CONFIGURATIONS = [block for block in ALL if block.file and block.file.endswith(".yaml")]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=where)
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
