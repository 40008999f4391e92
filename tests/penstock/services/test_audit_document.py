"""docs/audit*.md against the code: options, states, paths, metrics.

Keys are held by tests/penstock/config.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec

from audit.alerting.conditions import KINDS
from audit.alerting.formats import webhook
from audit.alerting.notices import Notice, severity_of
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig
from audit.configuration.inventory import parsed
from audit.headline import MARKS
from audit.http.resources import MESSAGES, RESOURCES
from audit.http.statements import PATHS
from audit.http.stream import MOST_STREAMS
from audit.process.metrics import AuditMetrics
from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.picture import ExpectedAgent, Hole, Tier, TierKind
from audit.service.service import Service
from ledger.certificate_requests import HEADS_PATH
from ledger.certificate_requests import PATH as CERTIFICATES
from penstock.cli.verdict_command import (
    COMPLETE,
    FAULTY,
    NO_VERDICT,
    NOT_LOADED,
    PENDING,
    TOO_FEW,
    UNKNOWN,
)
from penstock.report.command import command as report
from penstock.report.operator import accept, retire
from penstock.services.audit import command as audit
from penstock.services.audit import with_own_file

ROOT = Path(__file__).resolve().parents[3]
PAGE = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("audit*.md")))
CONFIG = AuditConfig(data_dir="/d")
SEVEN_TWELVE = 1_795_158_720_000  # 2026-11-20, 07:12 UTC


def section(name: str) -> str:
    found = re.split(rf"^#+ {re.escape(name)}$", PAGE, maxsplit=1, flags=re.MULTILINE)[1]
    return re.split(r"^#+ ", found, maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(name: str) -> set[str]:
    """What stands in backquotes in the first column of a section's tables."""
    rows = re.findall(r"^\| (.*?) \|", section(name), re.MULTILINE)
    return {each for row in rows for each in re.findall(r"`([^`]+)`", row)}


def test_every_state_is_explained() -> None:
    rows = re.findall(r"^\| (.) `(\w+)` \|", section("Reading a verdict"), re.MULTILINE)
    assert {name: mark for mark, name in rows} == {each.value: MARKS[each] for each in State}


def test_every_kind_of_finding_has_an_example() -> None:
    assert first_cells("Reading a verdict") >= {each.value for each in FaultKind}


def test_findings_are_said_as_it_shows() -> None:
    file = {"host": "web-3", "path": "/var/log/shop/a.log", "source": "a1-7", "tier": "broker"}
    at = {"partition": 0, "offset": 4_711, "offsets": 12}
    minute = {"from_time": SEVEN_TWELVE, "to_time": SEVEN_TWELVE + 60_000}
    missing = finding(FaultKind.MISSING, **file, **at, seq=120, events=12, position=8192)
    lost = finding(FaultKind.LOST, **file, **minute, position=0, end_position=512, unseen_end=True)
    path = "clicks/dt=2026-11-20/hour=07/copy.parquet"
    copied = finding(FaultKind.DUPLICATED, tier="hdfs", destination="hdfs://nn/logs", path=path)
    hole = finding(FaultKind.UNPROVEN, tier="agent", host="web-3", source="a1", seq=17, **minute)
    unnamed = finding(FaultKind.UNNAMED, tier="broker", events=12, **minute)
    spoilt = finding(FaultKind.CHANGED, tier="broker", **at)
    said = {
        "missing": Fault(msgspec.structs.replace(missing, end_position=9216)),
        "lost": Fault(lost, reason="truncated"),
        "duplicated": Fault(copied, reason=words.file_fault("extra", 0, 1_200)),
        "changed": Fault(spoilt, reason="…"),
        "unproven": Fault(hole, named=1),
        "unnamed": Fault(unnamed),
    }
    for kind, fault in said.items():
        assert f"| `{kind}` | {words.of('clicks', fault)} |" in PAGE


def finding(kind: FaultKind, **names: Any) -> Finding:
    return Finding(kind=kind, words="", **names)


def test_what_it_waits_for_is_said_as_it_shows() -> None:
    agent = ExpectedAgent("a1", "web-3", SEVEN_TWELVE, SEVEN_TWELVE + 62_000)
    hole = Hole("a1", TierKind.AGENT, "web-3", 17, 1, 0, 0)
    hdfs = Tier(TierKind.HDFS, "hdfs://nn/logs")
    for said in (
        words.behind(agent),
        words.behind(ExpectedAgent("", "web-9", 0, 0)),
        words.offsets_ahead(Tier(TierKind.BROKER), 4_711, 2, -1),
        words.offsets_ahead(hdfs, 4_711, 2, -1),
        words.missing_entry(hole, "web-3"),
        words.fresh(),
    ):
        assert f"| {said} |" in section("What it waits for")


def test_every_option_is_explained() -> None:
    of_every_program = {"--config", "--set", "--help", "--log-format"}
    options = {option for each in audit.params for option in each.opts} - of_every_program
    assert [
        each for each in options if f"`{each}`" not in section("The audit's configuration")
    ] == []
    options = {option for each in report.params for option in each.opts if each.opts[0][0] == "-"}
    assert [each for each in options if f"`{each}" not in section("The report")] == []
    for command, name in ((retire, "Retiring a host"), (accept, "Accepting a fault")):
        shown = {
            option for each in command.params for option in each.opts if option.startswith("--")
        }
        by_hand = {"--json", "--partition", "--cluster", "--config", "--profile"}
        by_hand |= {"--bootstrap", "--security", "--registry", "--registry-security"}
        assert [each for each in shown - by_hand if each not in section(name)] == []


def examples(program: str) -> list[list[str]]:
    lines = re.findall(rf"^penstock {program}(?: (.*?))?(?:  +#.*)?$", PAGE, re.MULTILINE)
    assert lines
    return [shlex.split(line) for line in lines]


def test_examples_are_understood() -> None:
    for arguments in examples("audit accept"):
        accept.make_context("accept", arguments).close()
    for arguments in examples("audit retire"):
        retire.make_context("retire", arguments).close()
    for arguments in examples("report"):
        report.make_context("report", arguments).close()


def test_every_exit_code_of_a_report_is_explained() -> None:
    codes = re.findall(r"^\| (\d+) \|", section("The report"), re.MULTILINE)
    known = [COMPLETE, FAULTY, PENDING, UNKNOWN, NO_VERDICT, NOT_LOADED, TOO_FEW]
    assert [int(code) for code in codes] == known


def test_the_page_about_alerts_says_what_is_sent_and_raised() -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    shown = json.loads(example)
    notice = msgspec.convert({**shown, "title": None}, Notice)
    assert json.loads(webhook(notice)) == shown
    mail, _ = re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
    title, _, *facts = mail.splitlines()
    assert title == notice.title
    assert [each.split(maxsplit=1) for each in facts] == [
        [f"{name}:", value] for name, value in notice.facts()
    ]
    rows = re.findall(r"^\| (`[^|]+) \| (critical|warning|info) \|", page, re.MULTILINE)
    said = {kind: severity for row, severity in rows for kind in re.findall(r"`(\w+)`", row)}
    assert said == {kind: severity_of(kind).value for kind in KINDS}


def test_every_path_is_explained() -> None:
    paths = {each.path for each in RESOURCES} | PATHS
    paths |= {MESSAGES.path, CERTIFICATES, f"{HEADS_PATH}DIGEST", "/api/v1/stream"}
    paths |= {"/api/openapi.json"}
    assert first_cells("The audit's API") == paths | {"/metrics", "/healthz", "/readyz"}
    assert f"{MOST_STREAMS} listeners" in section("The audit's API")


def test_every_metric_is_explained_with_its_labels() -> None:
    service = Service(CONFIG, AuditState({"local": ClusterState()}))
    known = {
        f"{each.name}_total" if each.type == "counter" else each.name: ", ".join(
            getattr(each, "_labelnames", ())
        )
        for each in AuditMetrics(service).families()
    }
    rows = re.findall(r"^\| (`penstock.*?) \| (.*?) ?\|", section("Metrics"), re.MULTILINE)
    shown = {name: labels for row, labels in rows for name in re.findall(r"`(\w+)`", row)}
    assert shown == known


def test_the_inventory_is_understood() -> None:
    (shown,) = re.findall(r"```text\n(.*?)```", section("Expected agents"), re.DOTALL)
    columns = [(line[:35].rstrip(), line[35:]) for line in shown.splitlines()]
    plain, yaml = ("\n".join(column).strip() for column in zip(*columns, strict=True))
    assert [each.host for each in parsed(plain)] == ["web-1", "web-2"]
    hosts = {each.host: each.topics for each in parsed(yaml)}
    assert hosts == {"web-1": (), "web-2": ("clicks", "orders")}


def test_commands_name_the_file_where_no_profile_does(tmp_path: Path) -> None:
    file, profile = tmp_path / "audit.yaml", tmp_path / "client.yaml"
    assert with_own_file(CONFIG, file, profile).commands.audit == str(file)
    profile.touch()
    assert with_own_file(CONFIG, file, profile).commands.audit == ""
