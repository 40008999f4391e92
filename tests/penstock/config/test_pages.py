"""What docs/ shows of configurations and metrics: tables of keys, samples, tables of metrics.

Agents' and the audit's metrics are held by tests/agent/test_agent_page.py and
tests/penstock/services/test_audit_document.py. A loader has no metrics."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.groups.membership.values import State
from broker.groups.metrics import GroupCounts
from broker.monitoring.metrics import BrokerMetrics, CheckedGauge, LossGauge, PartitionGauge
from broker.replicas.replication_status import CopyingFigures, figures
from broker.replication.throttle import Throttle
from cluster.values import ClusterSnapshot
from ground.http.exposition import certificate_family, door_families
from penstock.config.configuration import load
from penstock.config.pages import BEGIN, END, NoPlace, links, with_tables
from penstock.config.reference import KINDS, Key, Section, sections
from registry.http.metrics import Gauges, RegistryMetrics
from wire.errors import ErrorCode


@pytest.mark.parametrize("program", KINDS)
def test_meanings_are_sentences(program: str) -> None:
    for section in sections(KINDS[program]):
        for key in section.keys:
            assert key.meaning.endswith("."), key
            assert key.meaning[0].isupper() or key.meaning[0] in "`[", key
            assert "\n" not in key.meaning, key


def key(name: str, **said: object) -> Key:
    of = {"type": "text", "allowed": (), "required": False, "default": "", "meaning": "What it is."}
    return Key(**{"name": name, **of, **said})  # type: ignore[arg-type]


def rows(*keys: Key) -> list[str]:
    page = with_tables(f"{BEGIN}\n{END}", (Section("", "", keys),))
    return [line for line in page.splitlines() if line.startswith("| `")]


def test_a_row_says_type_default_and_meaning() -> None:
    assert rows(
        key("plain"),
        key("needed", required=True, default=None),
        key("few", allowed=("a", "b", "c"), default="b"),
        key("size", type="bytes", default=2**20),
        key("pattern", meaning="`a|b`."),
    ) == [
        "| `plain` | text | none | What it is. |",
        "| `needed` | text | required | What it is. |",
        "| `few` | `a`, `b` or `c` | `b` | What it is. |",
        "| `size` | bytes | `1048576` (1 MiB) | What it is. |",
        "| `pattern` | text | none | `a\\|b`. |",
    ]


def test_a_struct_has_one_table() -> None:
    """Its keys lead to it, in this page or another."""
    about = "How it goes. One of two."
    shared = Section("many[]", about, (key("many[].one"),), Key)
    again = Section("c", about, (key("c.one"),), Key)
    many = key("many", type="list of mappings", default=(), meaning=about)
    sections = (Section("", "", (many, key("c"))), shared, again)
    page = with_tables(f"{BEGIN}\n{END}", sections)
    row = "| `many` | list of mappings | none | How it goes ([keys](#keys-of-many)). |"
    assert (row in page, page.count(".one` |"), page.count("](#keys-of-many)")) == (True, 1, 2)
    page = with_tables(f"{BEGIN}\n{END}", sections, links((shared,), "x.md"))
    assert (page.count(".one` |"), page.count("](x.md#keys-of-many)")) == (0, 2)


def test_a_page_has_one_place_for_it() -> None:
    for page in ("# The broker\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n", f"{END}\n{BEGIN}\n"):
        with pytest.raises(NoPlace):
            with_tables(page, ())


DOCS = Path(__file__).resolve().parents[3] / "docs"
SAMPLES = DOCS / "samples"
_COMMENTED_OUT = re.compile(r"^( *)#(?=\S)", re.MULTILINE)


def uncommented(program: str) -> str:
    return _COMMENTED_OUT.sub(r"\1", (SAMPLES / f"{program}.yaml").read_text())


def test_every_program_has_a_minimal_and_a_full_one() -> None:
    there = {each.name for each in SAMPLES.iterdir()}
    assert there == {f"{name}{kind}.yaml" for name in KINDS for kind in ("", "-minimal")}


@pytest.mark.parametrize("program", KINDS)
def test_samples_are_accepted(program: str) -> None:
    for name in (program, f"{program}-minimal"):
        load(KINDS[program], SAMPLES / f"{name}.yaml")


@pytest.mark.parametrize("program", KINDS)
def test_what_is_commented_out_is_the_default(program: str, tmp_path: Path) -> None:
    path = tmp_path / "uncommented.yaml"
    path.write_text(uncommented(program))
    as_it_is = load(KINDS[program], SAMPLES / f"{program}.yaml")
    assert load(KINDS[program], path) == as_it_is
    assert path.read_text() != (SAMPLES / f"{program}.yaml").read_text()


@pytest.mark.parametrize("program", KINDS)
def test_every_key_is_shown(program: str) -> None:
    document = yaml.safe_load(uncommented(program))
    missing = [
        key.name
        for section in sections(KINDS[program])
        for key in section.keys
        if not shown(document, re.split(r"\.|(?=\[\])", key.name))
    ]
    assert missing == []


def shown(document: Any, name: list[str]) -> bool:
    """Whether a key is there; in a list, in one of its entries. What is null has no keys."""
    if not name or document is None:
        return True
    if name[0] == "[]":
        return isinstance(document, list) and any(shown(each, name[1:]) for each in document)
    if not isinstance(document, dict):
        return False
    if name[0] == "NAME":
        return any(shown(each, name[1:]) for each in document.values())
    return name[0] in document and shown(document[name[0]], name[1:])


def explained(program: str) -> dict[str, set[str]]:
    """The labels of each metric, as its pages have them."""
    rows = re.findall(
        r"^\| (`penstock_.*?) \| (.*?) ?\| .+ \|$",
        "\n".join(page.read_text() for page in DOCS.glob(f"{program}*.md")),
        re.MULTILINE,
    )
    return {
        name: set(filter(None, labels.split(", ")))
        for names, labels in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def exposed(families: Iterable[Metric]) -> dict[str, set[str]]:
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            label for sample in family.samples for label in sample.labels
        }
        - {"le"}
        for family in families
    }


def test_the_page_has_every_metric_of_a_broker() -> None:
    partition = PartitionGauge(topic="views", partition=0, online=True, follower_lag=0)
    loss = LossGauge(topic="views", partition=0, offsets=200)
    logs = {("views", 0): (1_795_000_000.0, -0.001)}
    checked = CheckedGauge({("views", 0): 1}, 4_096, 1_795_000_000, logs)
    moved = Throttle()
    moved.follow(1_000, now=0)
    metrics = BrokerMetrics(
        lambda: (partition,),
        lambda: (loss,),
        lambda: checked,
        allowed={"partitions": 10_000},
        more=lambda: (
            certificate_family({"ca.pem": 1_795_000_000.0}),
            *GroupCounts().families([(State.STABLE, 3)]),
            *door_families("penstock_broker_", {"unknown token": 1}, is_open=False),
            *figures(
                ClusterSnapshot(),
                is_controller=True,
                is_connected=True,
                copying=CopyingFigures(),
                throttles={"sent": moved},
            ),
        ),
    )
    metrics.topic("views").bytes_in += 1
    metrics.request("Produce", 0.1)
    metrics.rejected(ErrorCode.corrupt_message)
    metrics.complained("request refused")
    families = text_string_to_metric_families(metrics.exposition().decode())
    assert explained("broker") == exposed(
        family for family in families if family.name.startswith("penstock_")
    )


def test_the_page_has_every_metric_of_a_registry() -> None:
    gauges = Gauges(
        versions=1,
        offset=2,
        connections=3,
        highest_id=4,
        is_writer=True,
        mirrored_offsets={"dc1._schemas": 5},
    )
    metrics = RegistryMetrics(lambda: gauges, lambda: {"ca.pem": 1_795_000_000.0})
    metrics.request("GET", "/subjects", 200, 0.1)
    assert explained("registry") == exposed(metrics.families())
