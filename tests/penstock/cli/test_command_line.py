"""What holds for all commands: help, errors, exit codes, addresses, and how soon they are there."""

import gc
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.processes.server_process import free_ports
from penstock.cli import address_variables
from penstock.cli.address_variables import (
    AGENT,
    AUDIT,
    BOOTSTRAP,
    BROKER_HTTP,
    PROFILE,
    REGISTRY,
    UP,
)
from penstock.cli.failures import missing_extra
from penstock.cli.lazy_group import Lazy
from penstock.command_line import penstock as command_line
from penstock.connections.profile import hint
from penstock.report.audit_requests import DEFAULT_AUDIT
from tests.penstock.running import INTERPRETER, REPOSITORY, fresh_penstock, penstock


def test_the_commands_are_listed_with_what_they_do() -> None:
    said = penstock("--help").stdout
    for name, lazy in command_line.table.items():
        assert f"{name} " in said
        assert lazy.does in said
    assert penstock("--version").stdout == "penstock 0.1.0\n"
    alone = penstock()
    assert (alone.returncode, "Begin here:" in alone.stderr) == (2, True)


@pytest.mark.not_quick("starts a process")
def test_a_command_finds_what_it_needs_by_itself() -> None:
    ended = fresh_penstock("consume", "-h")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "penstock consume page_views" in ended.stdout


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that runs this code."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def imported_after(first: str, code: str) -> set[str]:
    """Modules that `code` imports where `first` has run already."""
    said = (
        f"import sys\n{first}\nbefore = set(sys.modules)\n{code}\n"
        "print(*set(sys.modules) - before, file=sys.stderr)"
    )
    ended = python(said)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())


# What help and a Tab for a command's name may import beside what click needs for its own: each is
# a part of a millisecond, or several, for which somebody waits.
AT_ONCE = {
    *("penstock", "penstock.command_line", "penstock.cli", "penstock.cli.completion"),
    *("penstock.cli.failures", "penstock.cli.lazy_group", "penstock.cli.output"),
    *("ground", "ground.printable", "ground.similar_names", "gc"),
}
CLICKS_OWN = """
import click, click.shell_completion, os, shlex
nothing = click.Group('nothing', help='Nothing.')
nothing.get_help(click.Context(nothing))
"""
RUN = """
from penstock.command_line import main
def run(*arguments):
    sys.argv = ['penstock', *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
def tab(line):
    os.environ |= {'_PENSTOCK_COMPLETE': 'bash_complete', 'COMP_WORDS': line,
                   'COMP_CWORD': line.rpartition(' ')[2]}
    run()
"""
GROUPS = [
    name
    for name, lazy in command_line.table.items()
    if lazy.where.startswith("penstock.command_line:")
]
TABS = {
    "a command": ["penstock re", "penstock topics de", "penstock --"],
    "an option": [
        *("penstock consume --", "penstock produce t --codec=z", "penstock broker --"),
        *("penstock topics create --", "penstock schemas show --", "penstock up --"),
        *("penstock mirror promote --", "penstock report --", "penstock load --"),
    ],
}


@pytest.mark.not_quick("starts a process")
def test_help_of_a_group_imports_nothing_but_click() -> None:
    code = f"{RUN}\nrun('--help')\nfor group in {GROUPS}: run(group, '--help')"
    assert imported_after(CLICKS_OWN, code) <= AT_ONCE


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize(
    ("of", "more", "own"),
    [
        ("a command", "", {"penstock.cli.shell_scripts"}),
        (
            "an option",
            "import json, pathlib",
            {"penstock.cli.shell_scripts", "penstock.cli.outlines"},
        ),
    ],
)
def test_a_tab_imports_no_command(of: str, more: str, own: set[str]) -> None:
    code = f"{RUN}\nfor line in {TABS[of]}: tab(line)"
    assert imported_after(f"{CLICKS_OWN}\n{more}", code) <= AT_ONCE | own


# `{here}` is a folder with a few files that are wrong.
USAGE = [
    ("version", "penstock: no such command: 'version'; did you mean --version? (see"),
    ("agents", "penstock: no such command: 'agents'; did you mean agent? (see"),
    ("status t", "penstock status: shows all topics; for one: penstock report t (see"),
    ("brokr", "penstock: no such command: 'brokr'; did you mean broker or brokers? (see"),
    ("topics lst", "penstock topics: no such command: 'lst'; did you mean list? (see penstock"),
    ("consume", "penstock consume: missing argument 'TOPIC' (see penstock consume --help)"),
    ("consume t --from x", "'x' is not beginning, end, an offset, or a time such"),
    ("consume t --from 1969-12-31", "'1969-12-31' is not beginning, end, an offset"),
    (f"consume t --from {'9' * 19}", "is not beginning, end, an offset"),
    ("consume t --count 0", "0 is not in the range x>=1"),
    ("consume t --partition -1", "-1 is not in the range x>=0"),
    ("consume t u", "got unexpected extra argument (u)"),
    ("consume t --form end", "no such option '--form'. Did you mean"),
    ("produce t --acks 2", "'2' is not one of 'all', '1', '0'"),
    ("produce t --file /nowhere", "File '/nowhere' does not exist"),
    ("topics create t --config a", "'a' is not name=value"),
    ("topics alter t", "nothing to change: pass --config, --default or --partitions"),
    ("topics alter t --config a=1 --default a", "--config and --default both"),
    ("topics list -b a:b", "bootstrap 'a:b': 'b' is not a port"),
    ("topics delete t", "stdin is not a terminal: pass --yes to confirm"),
    ("topics delete", "missing argument 'TOPIC…'"),
    ("topics repair t x", "'x' is not a whole number"),
    ("groups reset g", "pass one of --to-beginning, --to-end, --to-offset"),
    (
        "brokers describe x",
        "penstock brokers describe: invalid value for 'BROKER': 'x' is not a whole",
    ),
    ("produce t --schema-version 1", "--schema-version needs --avro-file"),
    (
        "produce t --key-separator : --avro-file -",
        "--avro-file excludes --file and --key-separator",
    ),
    ("consume t --schema-version 1", "--schema-version, --codec and --overwrite need"),
    ("consume t --avro-file x --events", "--avro-file excludes --events and --key-separator"),
    ("consume t --avro-file - --json", "--json needs a file, but - is stdout"),
    ("schemas list -r localhost:8081", "the URL must begin with http:// or https://"),
    ("schemas list -r http://me:secret@localhost", "a user and password in the URL"),
    ("schemas show", "pass a subject, or --id"),
    ("schemas show s --id 1", "pass a subject, or --id"),
    ("schemas show --id 1 --version 1", "--version needs a subject"),
    ("schemas show s --version 0", "'0' is neither a version such as 3 nor 'latest'"),
    ("schemas register a.avsc -s s -t t", "pass either --subject or --topic"),
    ("schemas register a.avsc -t ../t", "topic name '../t' has a character other than"),
    ("schemas show --id 2147483648", "is not in the range"),
    ("schemas register a.json", "pass --subject or --topic: a.json is not named SUBJECT.avsc"),
    ("schemas diff s -t t", "--subject and --topic need a file"),
    ("schemas diff s.avsc 1 2", "a file can be compared with only one version"),
    ("schemas delete s", "stdin is not a terminal: pass --yes to confirm"),
    ("schemas config s --set FULL --default", "pass either --set or --default"),
    ("schemas config --set SOME", "'SOME' is not one of"),
    ("schemas new ../x", "topic name '../x' has a character other than"),
    ("schemas new 1", "pass --record: '1' cannot be the name of an event"),
    ("schemas new x --field a", "'a' is not NAME=TYPE"),
    ("schemas new x --field a=strin", '"strin" is not a type'),
    ("schemas new x --field a=[", "--field a: not JSON"),
    ("status --bootstrap a:b", "bootstrap 'a:b': 'b' is not a port"),
    ("status --broker-http a:1", "the URL must begin with http:// or https://"),
    ("changes x --topic administration", "--topic excludes files"),
    ("changes --since recently", "an age like 2h or 7d"),
    ("changes --kind weather", "weather"),
    ("gate check", "pass either --canary FILE or --no-canary"),
    ("backup make f", "no ZooKeeper: pass --zookeeper, or set `zookeeper` in a profile"),
    ("status --watch x", "'x' is not a number"),
    ("status --watch 0", "0.0 is not in the range 0.2<=x<=86400"),
    ("status --watch nan", "'nan' is not a finite number"),
    ("brokers drain 3 --throttle inf", "'inf' is not a finite number"),
    ("status --dir /nowhere", "Directory '/nowhere' does not exist"),
    ("mirror promote t", "penstock mirror promote: pass --config FILE, or every key with --set"),
    ("up --follow", "penstock up: option '--follow' requires an argument"),
    ("keys load", "'load' is not one of 'agent', 'broker', 'registry', 'loader', 'audit'"),
    ("check-config", "penstock check-config: missing argument 'KIND'. Choose from: agent, broker"),
    ("broker", "pass --config FILE, or every key with --set KEY=VALUE"),
    ("broker --config /nowhere.yaml", "penstock: /nowhere.yaml: No such file"),
    ("broker --set id=1 --set prot=1", "--set prot: unknown key; did you mean"),
    ("broker --set id=1 --set data_dir=x", "`zookeeper` is missing: use"),
    ("zookeeper", "pass --config FILE, or every key with --set"),
    ("zookeeper --data-dir x --host 0.0.0.0", "set `insecure: true`"),
    ("zookeeper --data-dir {here}/text.avsc", "is a file"),
    ("zookeeper --data-dir x --port 65536", "65536 is not in the range 1<=x<=65535"),
    ("load", "pass --config FILE, or every key with --set KEY=VALUE"),
    ("load --every 1h --accept-gap", "would also accept all future losses"),
    ("load --every soon", "'soon' is not an interval such as 30m, 1h, 1d"),
    ("load --every 7h", "'7h' neither divides a day nor is a whole number of days"),
    ("load --topics a,,b", "'a,,b' has an empty name"),
    ("load --rebuild dt=2026-11-20", "--rebuild needs --topics"),
    ("load --rebuild dt=2026-11-20/hour=7", "is not a folder such as dt=2026-11-20/hour=07"),
    ("load --rebuild dt=2026-11-20 --topics t --every 1h", "--rebuild excludes"),
    ("load --check-files all --every 1h", "--check-files loads nothing"),
    ("load --upgrade-schema --every 1h", "--upgrade-schema excludes --every"),
    ("load --check-files none", "'none' is not a folder such as"),
    ("agent --status --set http_port=1", "pass --config, or --agent URL"),
    ("agent --json --set registry=x", "--json needs --status"),
    ("agent --status --agent http://h/?a=b", "is not the URL of an agent, such as http"),
    ("check-config brokr x", "'brokr' is not one of 'agent', 'broker', 'registry'"),
    ("check-config broker x.yaml --spark", "--spark applies only to the kind `loader`"),
    ("check-config agent x.yaml --beside y.yaml", "--beside applies only to the kind `inputs`"),
    ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
]
FAILED = [
    ("produce t --file {here}/socket", "{here}/socket: No such device or address"),
    ("zookeeper --data-dir {here}/zk --jars {here}/empty", "{here}/empty"),
    ("schemas check {here}/nowhere.avsc", "{here}/nowhere.avsc: No such file"),
    ("schemas check {here}/bytes.avsc", "bytes.avsc: line 1: not UTF-8"),
    ("schemas register {here}/folder.avsc", "folder.avsc: Is a directory"),
    ("schemas apply {here}/nowhere", "{here}/nowhere: No such file or directory"),
    ("schemas apply {here}/text.avsc", "{here}/text.avsc: Not a directory"),
    ("schemas apply {here}/empty", "{here}/empty: no file is named SUBJECT.avsc"),
    ("schemas apply {here}", "bytes.avsc: line 1: not UTF-8"),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bytes.avsc").write_bytes(b"\xff")
    (tmp_path / "text.avsc").write_text("not JSON")
    (tmp_path / "folder.avsc").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        yield tmp_path


@pytest.mark.parametrize(("code", "cases"), [(2, USAGE), (1, FAILED)], ids=["usage", "failed"])
def test_one_line_says_what_is_wrong(code: int, cases: list[tuple[str, str]], here: Path) -> None:
    for words, said in cases:
        ended = penstock(*(word.format(here=here) for word in words.split()))
        assert (ended.returncode, ended.stdout) == (code, ""), ended
        line, *others = ended.stderr.splitlines()
        assert said.format(here=here) in line, words
        assert all(each.startswith("penstock") for each in (line, *others))
        if not words.startswith(("broker --", "zookeeper --data-dir x --host")):  # configurations
            assert not others
            assert ("(see penstock" in line) == (code == 2), line


def test_a_default_address_that_does_not_answer_comes_with_advice() -> None:
    said = hint("audit", DEFAULT_AUDIT, DEFAULT_AUDIT, "--audit", AUDIT)
    assert said.startswith(": `penstock up` starts a pipeline on this machine; ")
    assert "pass --audit, set PENSTOCK_AUDIT, or write a profile (/etc/penstock" in said
    assert hint("audit", "http://there:8090", DEFAULT_AUDIT, "--audit", AUDIT) == ""


OPTIONS = {BOOTSTRAP: "--bootstrap", REGISTRY: "--registry", AUDIT: "--audit", AGENT: "--agent"}


@pytest.mark.parametrize(
    ("variable", "key", "command", "said"),
    [
        (BOOTSTRAP, "brokers", "topics list", "no broker at {}: connection refused"),
        (BOOTSTRAP, "brokers", "audit accept t --host h --reason x", "{}"),
        (REGISTRY, "registry", "schemas list", "no registry at {}: connection refused"),
        (AUDIT, "audit", "report", "no audit answers at {}: connection refused"),
        (AGENT, "agent", "agent --status", "no agent answers at {}"),
    ],
)
def test_an_option_replaces_a_variable_and_that_a_profile(
    variable: str, key: str, command: str, said: str, tmp_path: Path
) -> None:
    address = "127.0.0.1:{}" if key == "brokers" else "http://127.0.0.1:{}"
    in_profile, by_variable, by_option = (address.format(port) for port in free_ports(3))
    path = tmp_path / "profile.yaml"
    path.write_text(json.dumps({key: [in_profile] if key == "brokers" else in_profile}))
    environment = {PROFILE: str(path)}
    words = command.split()
    alone = penstock(*words, environment=environment).stderr
    assert said.format(in_profile) in alone
    assert f"({key} from {path})" in alone
    environment[variable] = by_variable
    assert said.format(by_variable) in penstock(*words, environment=environment).stderr
    words += [OPTIONS[variable], by_option]
    assert said.format(by_option) in penstock(*words, environment=environment).stderr


def test_what_is_wrong_with_a_variable_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AGENT, "web-3:9464")
    ended = penstock("agent", "--status")
    assert ended.returncode == 2
    assert "'web-3:9464' is not the URL of an agent, such as http://127.0.0.1:9464" in ended.stderr


def test_there_is_a_variable_for_each_kind_of_address() -> None:
    named = {value for name, value in vars(address_variables).items() if name.isupper()}
    assert named == {*OPTIONS, BROKER_HTTP, PROFILE, UP}


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


@pytest.mark.not_quick("starts a process")
def test_streams_may_be_full_closed_or_without_letters() -> None:
    full = (1, "", "penstock: output: No space left on device\n")
    assert penstock_in_shell("schemas --help > /dev/full") == full
    assert penstock_in_shell("schemas --help <&- >&-") == (0, "", "")
    assert penstock_in_shell("tpics 2>&-") == (2, "", "")
    code, said, error = penstock_in_shell("keys agent", PYTHONIOENCODING="ascii")
    assert (code, "\\u2026" in said, error) == (0, True, "")


@pytest.mark.not_quick("starts a process")
def test_without_an_extra_its_name_is_said(tmp_path: Path) -> None:
    for name in ("kazoo", "pyarrow"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(name='{name}')\n")
    audit = ["audit", "--set", "data_dir=/d", "--set", "cluster=c", "--set", "brokers=[b:9092]"]
    for words, said in (
        (["broker", "--help"], missing_extra("penstock broker", "kazoo", "broker")),
        (audit, missing_extra("penstock audit", "pyarrow", "audit")),
    ):
        code = f"import sys; sys.argv[1:] = {words}; import penstock.__main__ as it"
        ended = python(f"{code}; it.main()", PYTHONPATH=f"{tmp_path}:{REPOSITORY}")
        assert (ended.returncode, ended.stderr) == (1, f"penstock: {said}\n")


WALK = """
import sys
sys.modules.update(dict.fromkeys({extras}))
import click
from penstock.command_line import penstock
def walk(group, above):
    for name, lazy in group.table.items():
        try:
            command = group.get_command(above, name)
        except click.ClickException as error:
            print(error.format_message())
        else:
            if hasattr(command, 'table'):
                walk(command, click.Context(command, parent=above, info_name=name))
walk(penstock, click.Context(penstock, info_name='penstock'))
"""


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
    ended = python(WALK.format(extras=sorted(extras)))
    assert (ended.returncode, ended.stderr) == (0, "")
    needs = r"^penstock ([\w ]+) needs \w+: install Penstock with `(\w+)`, from a release .*$"
    needed = re.findall(needs, ended.stdout, re.MULTILINE)
    assert len(needed) == len(ended.stdout.splitlines())
    assert {"agent", "broker", "registry", "load", "topics recover"} <= dict(needed).keys()
    assert "audit retire" not in dict(needed)


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
    ended = python(
        "import gc\n"
        "from penstock.command_line import penstock\n"
        "assert gc.get_freeze_count() == 0\n"
        "penstock.table['agent'].command()\n"
        "assert gc.get_freeze_count() > 50_000 > len(gc.get_objects())\n"
    )
    assert (ended.returncode, ended.stderr) == (0, "")


LOGGING = """
import logging, sys
from penstock.cli.event_log import log_to_stderr
log_to_stderr({log_format!r})
log = logging.getLogger("broker.server")
log.info("connection refused client_id=%s", "evil\\n2026 INFO all is well\\x1b[2J")
log.debug("not shown")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("that was a bug")
"""


@pytest.mark.not_quick("starts a process")
def test_an_event_is_one_line_whatever_a_peer_or_an_exception_puts_into_it() -> None:
    def logged(log_format: str) -> list[str]:
        ended = python(LOGGING.format(log_format=log_format))
        assert (ended.returncode, ended.stdout) == (0, "")
        return ended.stderr.splitlines()

    refused, bug = logged("text")
    time, rest = refused.split(" ", 1)
    assert len(time) == len("2026-11-20T07:00:00.123Z")
    assert time.endswith("Z")
    wanted = r"connection refused client_id=evil\n2026 INFO all is well\x1b[2J"
    assert rest == f"INFO broker.server {wanted}"
    assert "ERROR broker.server that was a bug traceback=Traceback (most recent" in bug
    assert bug.endswith("ZeroDivisionError: division by zero")

    first, second = map(json.loads, logged("json"))
    assert (first["level"], first["logger"]) == ("INFO", "broker.server")
    assert first["event"] == "connection refused client_id=evil\n2026 INFO all is well\x1b[2J"
    assert second["traceback"].endswith("ZeroDivisionError: division by zero")
