"""What every command's help has: an example that is one, and options in the same words as others'.

The commands are those of the tree, whatever there is.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.core import ParameterSource

from loader.errors import FilesDiffer, LoaderError, RunTaken, SparkFailed
from penstock import command_line
from penstock.cli import verdict_command
from penstock.cli.lazy_group import LazyGroup
from penstock.command_line import penstock
from penstock.gate.reasons import Trouble
from penstock.services.load.summary import NOTHING_TO_DO
from penstock.verify.faults import Verdict
from tests.penstock.running import REPOSITORY

# Programs that run until they are told to stop, and what only writes for a shell.
WITHOUT_JSON = {*("up", "broker", "registry", "audit", "mirror", "completion", "password-line")}
# What lies behind a gap is of a topic, or of all that is loaded.
# A topic's settings are Kafka's --config, a level is a registry's; an address is of a host, too.
SEVERAL_MEANINGS = {
    "--accept-gap",
    "--config",
    "--set",
    "--count",
    "--default",
    "--version",
    "--from",
    "--host",
}
FILE = re.compile(r"[\w-]+\.(?:json|yaml|avsc|avro|log)")
FOLDER = re.compile(r"\./[\w-]+")

assert isinstance(penstock, LazyGroup)


def contexts(above: click.Context) -> Iterator[click.Context]:
    """Of every command below, groups as well."""
    group = above.command
    if isinstance(group, LazyGroup):
        for name in group.table:
            command = group.get_command(above, name)
            assert command is not None
            context = click.Context(command, parent=above, info_name=name)
            yield context
            yield from contexts(context)


ROOT = click.Context(penstock, info_name="penstock")


def every() -> list[click.Context]:
    return [ROOT, *contexts(ROOT)]


def path(context: click.Context) -> str:
    return context.command_path.removeprefix("penstock").strip()


def options(context: click.Context) -> Iterator[click.Option]:
    yield from (each for each in context.command.params if isinstance(each, click.Option))


def examples(context: click.Context) -> list[list[str]]:
    """What its examples call, as words without `penstock` itself."""
    text = (context.command.help or "").partition("Example:")[2].replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        inner = re.fullmatch(r'\s*eval "\$\((.*)\)"', line)
        lexer = shlex.shlex(inner[1] if inner else line, posix=True, punctuation_chars="|")
        lexer.whitespace_split = True
        piped = " ".join(shlex.quote(word) for word in lexer).split(" '|' ")
        called = [shlex.split(part) for part in piped]
        found += [words[1:] for words in called if words and words[0] == "penstock"]
    return found


def parse(words: list[str]) -> click.Context:
    """As the command that it names would. Nothing is run."""
    above = ROOT
    command: click.Command = penstock
    while isinstance(command, LazyGroup) and words and words[0] in command.table:
        name, *words = words
        below = command.get_command(above, name)
        assert below is not None
        command = below
        if not isinstance(command, LazyGroup) or not words or words[0].startswith("-"):
            return command.make_context(name, words, parent=above)
        above = click.Context(command, parent=above, info_name=name)
    raise AssertionError(f"{words} calls no command")


def test_every_command_has_an_example_of_its_own() -> None:
    for context in every():
        called = [" ".join(words) for words in examples(context)]
        assert called, f"{context.command_path}: no example"
        # A group's are of its commands.
        assert any(each.startswith(path(context)) for each in called), context.command_path


def test_every_example_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for context in every():
        for words in examples(context):
            for word in words:
                if FILE.fullmatch(word):
                    (tmp_path / word).touch()
                elif FOLDER.fullmatch(word):
                    (tmp_path / word).mkdir(exist_ok=True)
            try:
                parse(words)
            except click.ClickException as error:
                pytest.fail(f"penstock {' '.join(words)}: {error.format_message()}")


def test_help_says_what_is_done_and_fits_a_terminal() -> None:
    for context in every():
        for line in (context.command.help or "").splitlines():
            assert len(line.strip()) <= 100, f"{context.command_path}: {line}"
        first = (context.command.help or "").splitlines()[0]
        assert first.endswith("."), f"{context.command_path}: {first}"
        for option in options(context):
            said = option.help or ""
            assert said.endswith((".", ")")), f"{context.command_path} {option.opts}: {said!r}"


def test_headings_say_what_the_help_says() -> None:
    """A group's line for a command is a sentence; nothing is imported for it."""
    for context in every():
        if isinstance(context.command, LazyGroup):
            for name, lazy in context.command.table.items():
                assert lazy.does.endswith("."), name
                assert f"  {name} " in context.command.get_help(context), name


def test_what_an_option_takes_has_a_name_that_means_something() -> None:
    """INTEGER RANGE and PATH are click's words, for those that were given none."""
    for context in every():
        for option in options(context):
            if option.is_flag or option.metavar or isinstance(option.type, click.Choice):
                continue
            word = option.make_metavar(context)
            assert word in {"DAY", "HOUR", "TIME"}, f"{context.command_path} {option.opts}: {word}"


def test_an_option_means_the_same_in_every_command() -> None:
    seen: dict[str, dict[tuple[str | None, tuple[str, ...]], str]] = defaultdict(dict)
    for context in every():
        for option in options(context):
            for name in set(option.opts) - SEVERAL_MEANINGS:
                kind = ("flag" if option.is_flag else option.metavar, tuple(option.opts))
                seen[name][kind] = context.command_path
    different = {name: kinds for name, kinds in seen.items() if len(kinds) > 1}
    assert different == {}


def test_what_ends_with_something_to_say_says_it_as_json() -> None:
    for context in every():
        if not isinstance(context.command, LazyGroup) or context.command.invoke_without_command:
            has = any("--json" in option.opts for option in options(context))
            assert has is not (path(context) in WITHOUT_JSON), context.command_path


def test_addresses_can_be_given_by_the_environment_and_help_says_so() -> None:
    variables = {"--bootstrap": "PENSTOCK_BOOTSTRAP", "--registry": "PENSTOCK_REGISTRY"}
    variables |= {"--audit": "PENSTOCK_AUDIT", "--agent": "PENSTOCK_AGENT"}
    variables |= {"--broker-http": "PENSTOCK_BROKER_HTTP"}
    for context in every():
        said = " ".join(context.command.get_help(context).split())
        for option in options(context):
            for name in variables.keys() & set(option.opts):
                assert f"env var: {variables[name]}" in said, f"{context.command_path} {name}"


def test_an_option_on_the_command_line_is_told_from_one_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "")
    context = parse(["topics", "list"])
    assert context.get_parameter_source("bootstrap") is ParameterSource.DEFAULT


_VERDICTS = {code for code in vars(verdict_command).values() if isinstance(code, int)}
EXIT_CODES = {
    "all": {0, command_line.NOT_DONE, command_line.WRONG_USAGE}
    | {command_line.INTERRUPTED, command_line.NO_READER},
    "report": _VERDICTS,
    "backfill": _VERDICTS,
    "verify": {*Verdict},
    "gate check": {0, *Trouble},
    "compact": {NOTHING_TO_DO, *(each.exit_code for each in (RunTaken, SparkFailed, FilesDiffer))},
    "load": {NOTHING_TO_DO, *(each.exit_code for each in LoaderError.__subclasses__())}
    - {1, command_line.INTERRUPTED},
}


def test_exit_codes_are_in_one_table_and_in_the_help() -> None:
    page = (REPOSITORY / "docs" / "commands.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (?:`penstock ([\w -]+)`|all) \|", page, re.MULTILINE)
    documented: dict[str, set[int]] = defaultdict(set)
    for code, command in rows:
        documented[command or "all"].add(int(code))
    assert documented.items() >= EXIT_CODES.items()
    assert all(codes == {1} for name, codes in documented.items() if name not in EXIT_CODES)
    for context in contexts(ROOT):
        name = context.command_path.removeprefix("penstock ")
        said = " ".join((context.command.help or "").split())
        codes = documented.get(name, set()) - {0}
        assert ("Exit code" in said) == bool(codes), name
        assert all(f"{code}: " in said for code in codes), name
