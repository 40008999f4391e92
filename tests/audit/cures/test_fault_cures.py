"""The command beside each fault, and the runbook's entry for each kind."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from audit.alerting.conditions import KINDS
from audit.configuration.config import CommandsConfig
from audit.cures import runbook
from audit.cures.fault_cures import advice, cure_for, cure_in, cure_words
from audit.programs import DAMAGED
from audit.reconciling.findings import FaultKind, Finding
from audit.reconciling.picture import TopicKey
from audit.reconciling.words import LOG_LOST, NO_LOAD_WROTE, PASSED_OVER, REBUILT
from loader.errors import ColumnChanged, GapError, SchemaDeleted, cure_of
from penstock.report.operator import accept

SEVEN = 1_795_158_000_000  # 2026-11-20 07:00 UTC
KEY = TopicKey("dc1", "clicks", "KDgxFnW2R0a2uYd7rJ5T4g")
COMMANDS = CommandsConfig(loader="/etc/loader.yaml", audit="/etc/audit.yaml")
ACCEPT = (
    "penstock audit accept clicks --config /etc/audit.yaml --cluster dc1"
    " --topic-id KDgxFnW2R0a2uYd7rJ5T4g {} --reason REASON"
)
HOUR_7 = "--rebuild dt=2026-11-20/hour=07"
AT = {"from_time": SEVEN + 1_500, "to_time": SEVEN + 4_200}
DAYS = {"from_time": SEVEN, "to_time": SEVEN + 86_400_000 + 1}
EVENTS = {"source": "a1-7", "seq": 120, "events": 12, "position": 8_192, "end_position": 9_216}
OPEN = {"source": "a1-7", "position": 8_192}
LANDED: dict[str, Any] = {"tier": "hdfs", "path": "views/dt=2026-11-20/hour=07/a.parquet"}
_IN, _OUT = "views/dt=2026-11-20/copy.parquet", "_extra-views.dt=2026-11-20.copy.parquet"
W = "file:///w w"
ROOT = "hdfs://n:8020/nightly"
OFFSETS = {"partition": 2, "offset": 4_711, "offsets": 12}
HOST = "--host 'web-3; reboot' --from 2026-11-20T07:00:01 --to 2026-11-20T07:00:05"


def extra(root: str, path: str = _IN) -> dict[str, Any]:
    return {"tier": "hdfs", "destination": root, "path": path, "reason": NO_LOAD_WROTE}


def accepting(names: str) -> str:
    return ACCEPT.format(names)


def rebuilding(table: str, hours: str) -> str:
    return f"penstock load --config /etc/loader.yaml --topics {table} {hours}"


@pytest.mark.parametrize(
    ("kind", "known", "command"),
    [
        ("missing", {"tier": "broker", **EVENTS}, accepting("--source a1-7 --seqs 120-131")),
        ("missing", {"tier": "hdfs", **EVENTS, **AT}, rebuilding("clicks", HOUR_7)),
        *(  # the brokers have nothing to rebuild from
            (
                *("missing", {"tier": "hdfs", "reason": reason, **EVENTS, **AT}),
                accepting("--source a1-7 --seqs 120-131"),
            )
            for reason in (f"{LOG_LOST}: it ends", PASSED_OVER)
        ),
        ("missing", LANDED, rebuilding("views", HOUR_7)),
        ("duplicated", LANDED, rebuilding("views", HOUR_7)),
        ("duplicated", extra("file:///a b"), f"mv -n '/a b/{_IN}' '/a b/{_OUT}'"),
        ("duplicated", extra("hdfs://n/w/"), f"hdfs dfs -mv hdfs://n/w/{_IN} hdfs://n/w/{_OUT}"),
        (  # they have been rebuilt from all that there is
            *("unnamed", {"tier": "hdfs", "reason": REBUILT, **AT}),
            accepting("--from 2026-11-20T07:00:01 --to 2026-11-20T07:00:05"),
        ),
        *(  # no command moves what is not below the root, and a rebuild would leave it
            (*("duplicated", extra(*file)), accepting(f"--landed-file '{'/'.join(file)}'"))
            for file in ((W, "../../x"), ("file://-t /w", _IN), ("-t /w", _IN), (W, _IN + "*"))
        ),
        (
            *("missing", {"tier": "hdfs", "destination": "file:///w", "path": "../$(reboot)/a"}),
            accepting("--landed-file 'file:///w/../$(reboot)/a'"),
        ),
        (
            *("unnamed", {"tier": "hdfs", **DAYS}),
            rebuilding("clicks", "--rebuild dt=2026-11-20 --rebuild dt=2026-11-21"),
        ),
        ("lost", {"tier": "agent", **EVENTS}, accepting("--source a1-7 --bytes 8192-9216")),
        ("lost", {"unseen_end": True, **EVENTS}, accepting("--source a1-7 --bytes 8192-9217")),
        ("unknown", {"host": "web-3; reboot", **AT}, accepting(HOST)),
        ("unknown", {"host": "web\n3", **AT}, ""),
        ("unknown", OPEN, accepting("--source a1-7 --bytes 8192-8193")),
        ("unproven", {"source": "b1", "seq": 7, "events": 1}, accepting("--source b1 --seqs 7-7")),
        ("changed", {"tier": "broker", **OFFSETS}, accepting("--partition 2 --offsets 4711-4722")),
        ("unknown", {"accepted": "known", **AT}, ""),
        ("unknown", {"harmless": "for a moment only", **AT}, ""),
    ],
)
def test_the_command_beside_a_fault(kind: str, known: dict[str, Any], command: str) -> None:
    fault = Finding(kind=FaultKind(kind), words="", **known)
    cure = cure_for(fault, KEY, COMMANDS)
    accepts = " accept " in command
    assert cure == (command, (accepts and "accepts") or (command and "mends") or None)
    if accepts:
        has_arrived = kind in {"duplicated", "changed"}
        assert advice(cure, kind).startswith("if it cannot be rep" if has_arrived else "if no copy")
    if accepts:  # it is one: what is wrong is that there is no such file
        typed = command.replace("REASON", "gone")
        ended = CliRunner().invoke(accept, shlex.split(typed)[3:])
        assert "/etc/audit.yaml" in ended.output


@pytest.mark.parametrize(
    ("advice", "config"),
    [
        ({ROOT: "`penstock load --config '/a b.yaml' --topics clicks`"}, "'/a b.yaml'"),
        ({ROOT: "`penstock load --config /c --set root=r --topics t`"}, "/c --set root=r"),
        ({ROOT: "restore the brokers"}, "/etc/loader.yaml"),  # no other root is known
        ({"file:///other": "`penstock load --config /o --topics clicks`"}, "FILE"),
    ],
)
def test_a_root_has_a_loader_of_its_own(advice: dict[str, str], config: str) -> None:
    fault = Finding(kind=FaultKind.MISSING, words="", destination=ROOT, **LANDED)
    command = f"penstock load --config {config} --topics views {HOUR_7}"
    note = f"  # FILE: the configuration of the loader of {ROOT}" * (config == "FILE")
    assert cure_for(fault, KEY, COMMANDS, advice) == (command + note, "mends")


def test_a_shell_reads_the_variables_first() -> None:
    under_up = CommandsConfig(loader="/a b/l.yaml", environment="/a b/environment")
    options = ("--config", "/a b/l.yaml")
    cure = cure_of(GapError("gone"), "clicks", options)
    load = "penstock load --config '/a b/l.yaml' --topics clicks --accept-gap"
    assert cure_in(cure, under_up) == (f". '/a b/environment' && {load}", "accepts")
    assert cure_words(cure, under_up).startswith(f"`. '/a b/environment' && {load}` loads")
    rebuild = cure_of(GapError("gone"), "clicks", options, ["dt=2026-11-20/hour=07"])
    assert cure_in(rebuild, CommandsConfig()).command == f"{load[:-13]} {HOUR_7} --accept-gap"
    changed = ColumnChanged("string in the latest schema (clicks-value, version 2)")
    take_back = "penstock schemas delete clicks-value --version 2 --yes"
    assert cure_in(cure_of(changed, "clicks"), CommandsConfig()) == (take_back, "mends")
    deleted = SchemaDeleted("was deleted (clicks-value, version 2)")
    show = "penstock schemas show clicks-value --version 2"
    cure = cure_of(deleted, "clicks")
    assert cure_in(cure, CommandsConfig()) == (show, "looks")
    assert "penstock schemas register FILE --subject clicks-value`" in cure
    cure, again = cure_of(changed, "clicks", options), f"{load[:-13]} --set dead_share=1"
    assert f"`{take_back}`, then `{again}`" in cure_words(cure, CommandsConfig())
    alert = cure_words(cure, under_up, short=True)
    assert f"`penstock schemas …`, then `. '/a b/environment' && {again}`" in alert
    assert cure_in(f"`'/c d/penstock' {load[9:]}`", CommandsConfig()).command == load
    assert cure_in("`curl evil | sh`", under_up).command == ""
    assert cure_in("`penstock load --topics $(reboot)`", under_up).command == ""


def test_every_kind_has_an_entry_in_the_runbook() -> None:
    kinds = [each.kind for each in runbook.ENTRIES]
    assert set(kinds) == {*FaultKind, *KINDS, DAMAGED}
    assert len(set(kinds)) == len(kinds)
    page = runbook.page()
    assert all(f'id="{each}"' in page for each in kinds)
    docs = Path(__file__).parents[3] / "docs" / "runbook.md"
    assert docs.read_text() == runbook.markdown()
