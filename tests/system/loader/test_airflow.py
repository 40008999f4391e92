"""Airflow's provider in Airflow: `airflow standalone` with a real triggerer, in front of a broker,
an agent, two audits (one with TLS and tokens) and real loads.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from audit.api.answers import HourGate
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.airflow.airflow import REPOSITORY, Airflow
from harness.logins.made_secrets import made_secret
from harness.processes.waiting import wait_until
from loader.values.tables import Hour, hour_folder
from tests.audit.http.locked import TOKEN, LockedAudit
from tests.system.audit.pipeline import HOUR, WINDOW, Pipeline

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

TOPIC = "page_views"
ENDED = {"success", "failed", "skipped", "upstream_failed"}
# Airflow's own conditions: a run's states are polled, and its scheduler has many steps.
WITHIN = 600.0

DAGS = """
from datetime import datetime, timedelta, timezone
from airflow.sdk import DAG
from airflow_providers_penstock.operator import PenstockLoadOperator
from airflow_providers_penstock.sensor import PenstockHourSensor

FOLDER, PENSTOCK = {folder!r}, {penstock!r}
start = dict(
    schedule=None,
    start_date=datetime(2000, 1, 1, tzinfo=timezone.utc),
    is_paused_upon_creation=False,
)
again = dict(retries=2, retry_delay=timedelta(seconds=0))

with DAG(dag_id="load", **start):
    PenstockLoadOperator(
        task_id="load", executable=PENSTOCK, config=FOLDER + "/loader.yaml", tables=["page_*"],
    )

with DAG(dag_id="hours", **start):
    for task, options in {{
        "shipped": dict(landed=False),
        "landed": dict(),
        "in_a_worker": dict(landed=False, deferrable=False),
        "quiet": dict(hour="{{{{ data_interval_end - macros.timedelta(hours=2) }}}}"),
        "locked": dict(penstock_conn_id="locked", landed=False),
        "wrong_token": dict(penstock_conn_id="wrong_token"),
        "unknown": dict(topic="page_view"),
        "future": dict(hour="2999-01-01"),
        "forgotten": dict(hour="{{{{ data_interval_end - macros.timedelta(days=8) }}}}"),
        "away": dict(penstock_conn_id="away", timeout=5),
    }}.items():
        options = {{"topic": "page_views", **options, **again}}
        PenstockHourSensor(task_id=task, poke_interval=1, **options)

with DAG(dag_id="failures", **start):
    for task in ("usage", "brokers_away", "hanging"):
        PenstockLoadOperator(
            task_id=task, executable=PENSTOCK, config=FOLDER + "/" + task + ".yaml",
            retries=0 if task == "hanging" else 1, retry_delay=timedelta(seconds=0),
        )
"""


class Site(NamedTuple):
    pipeline: Pipeline
    airflow: Airflow
    folder: Path
    hanging: str  # an address that accepts connections, and never answers

    @property
    def lineage(self) -> list[Any]:
        lines = (self.folder / "lineage").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def ended(self, tasks: str, *names: str) -> dict[str, str]:
        """The states of a run's tasks, or of these, once they have ended."""

        def states() -> dict[str, str]:
            found = self.airflow.states(tasks)
            chosen = {name: found[name] for name in names or found}
            return chosen if set(chosen.values()) <= ENDED else {}

        try:
            return wait_until(states, what=f"the end of {tasks}", within=WITHIN)
        except TimeoutError as error:
            error.add_note(f"{self.airflow.states(tasks)}\n{self.airflow.process.last_words(60)}")
            raise

    def load(self) -> tuple[str, Any]:
        """The state of one load, and what it returned."""
        tasks = self.airflow.trigger("load")
        (state,) = self.ended(tasks).values()
        value = self.airflow.returned(tasks, "load") if state == "success" else None
        return state, value

    def attempts(self, tasks: str) -> dict[str, int]:
        rows = self.airflow.ask(tasks)["task_instances"]
        return {row["task_id"]: row["try_number"] for row in rows}


@pytest.fixture(scope="module")
def site(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("airflow")
    chroot = f"{zookeeper.address}/{folder.name}-{os.getpid()}"
    with (
        Pipeline(folder / "pipeline", chroot, None, [TOPIC]) as pipeline,
        socket.socket() as hanging,
    ):
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        address = f"127.0.0.1:{hanging.getsockname()[1]}"
        _write_configs(folder, pipeline, address)
        locked = LockedAudit(
            folder / "locked",
            brokers=pipeline.broker.bootstrap,
            registry=pipeline.registry.url,
            settings={"window": WINDOW, "grace": 2.0},
        )
        with locked:
            deployed = (REPOSITORY / "deploy" / "airflow").glob("*.py")
            dags = {path.name: path.read_text() for path in deployed}
            dags["tests.py"] = DAGS.format(folder=str(folder), penstock=str(_executable(folder)))
            environment = _environment(folder, pipeline, locked)
            with Airflow(folder / "airflow", dags=dags, environment=environment) as airflow:
                yield Site(pipeline, airflow, folder, address)


def _executable(folder: Path) -> Path:
    """`penstock` of this working tree, which an installed one would be in its own environment."""
    path = folder / "penstock"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from penstock.command_line import main\nmain()\n"
    )
    path.chmod(0o755)
    return path


def _write_configs(folder: Path, pipeline: Pipeline, hanging: str) -> None:
    config = msgspec.to_builtins(pipeline.loader_config)
    for name, brokers in {
        "loader": [pipeline.broker.bootstrap],
        "brokers_away": ["127.0.0.1:9"],
        "hanging": [hanging],
    }.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**config, "brokers": brokers}))
    (folder / "usage.yaml").write_text("root: nowhere\n")


def _environment(folder: Path, pipeline: Pipeline, locked: LockedAudit) -> dict[str, str]:
    def audit(port: int, **fields: object) -> str:
        return json.dumps({"conn_type": "penstock", "host": "127.0.0.1", "port": port, **fields})

    tls = {"schema": "https", "extra": json.dumps({"ca": str(locked.ca)})}
    return {
        "AIRFLOW_CONN_PENSTOCK_DEFAULT": audit(pipeline.audit.port),
        "AIRFLOW_CONN_LOCKED": audit(locked.port, password=TOKEN, **tls),
        "AIRFLOW_CONN_WRONG_TOKEN": audit(locked.port, password=made_secret("wrong"), **tls),
        "AIRFLOW_CONN_AWAY": audit(9),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(folder / "lineage"), "append": True}
        ),
    }


def test_airflow_knows_the_provider(site: Site) -> None:
    """Its description is checked against Airflow's schema, and gives the form of a connection."""
    providers = site.airflow.ask("/providers?limit=500")["providers"]
    names = [provider["package_name"] for provider in providers]
    assert "airflow-providers-penstock" in names
    assert site.airflow.ask("/importErrors")["import_errors"] == []
    dags = {dag["dag_id"] for dag in site.airflow.ask("/dags")["dags"]}
    assert dags >= {"penstock_load", "page_views_hourly"}


def test_a_day_in_airflow(site: Site) -> None:
    pipeline = site.pipeline
    pipeline.agent("web-1", [TOPIC])
    pipeline.write("web-1", TOPIC, range(300))
    wait_until(lambda: _is_delivered(pipeline, 300), what="the first events")
    _loads(site)
    pipeline.write("web-1", TOPIC, range(300, 400))
    wait_until(lambda: _is_delivered(pipeline, 400), what="more events")
    _hours(site)
    _lineage(site)


def _is_delivered(pipeline: Pipeline, events: int) -> bool:
    """Whether agents and brokers have delivered so many, and the audit says so."""
    tiers = [tier for topic in pipeline.report().topics for tier in topic.tiers]
    if sum(tier.events for tier in tiers if tier.tier == "broker") != events:
        return False
    query = {"topic": TOPIC, "hour": pipeline.began}
    return pipeline.audit.get("hour", HourGate, **query).complete


def _loads(site: Site) -> None:
    """The first load lands rows, one of the next ones closes their hour, then nothing is left."""
    state, first = site.load()
    assert (state, first["rows"], first["tables"][TOPIC]["dead"]) == ("success", 300, 0)
    closed: list[str] = list(first["tables"][TOPIC]["complete"])
    hour = hour_folder(Hour(site.pipeline.began))
    while hour not in closed:
        _, loaded = site.load()
        tables = loaded["tables"].values() if loaded else []
        closed += [hour for table in tables for hour in table["complete"]]
    while (ended := site.load())[0] != "skipped":  # an hour may have ended meanwhile
        assert ended[1]["rows"] == 0


def _hours(site: Site) -> None:
    airflow, began = site.airflow, site.pipeline.began
    after = datetime.fromtimestamp((began + HOUR + 300_000) / 1000, UTC)
    tasks = airflow.trigger("hours", logical_date=after.isoformat())
    names = ["shipped", "in_a_worker", "quiet", "locked", "wrong_token", "unknown", "future"]
    states = site.ended(tasks, *names, "forgotten", "away")
    failed = {"wrong_token", "unknown", "future", "forgotten", "away"}
    assert states == {name: "failed" if name in failed else "success" for name in states}, (
        site.airflow.states(tasks)
    )
    attempts = site.attempts(tasks)
    assert {name: attempts[name] for name in failed} == dict.fromkeys(failed, 1)
    for task, words in {
        "wrong_token": "HTTP 401",
        "unknown": "did you mean page_views?",
        "future": "2999-01-01T00 (UTC) is in the future",
        "forgotten": "older than the audit's `retention`",
        "away": "cannot be reached (ConnectError",
        "quiet": "complete by agents, brokers and files",
        "shipped": "complete by agents and brokers",
    }.items():
        log = airflow.task_log(tasks, task)
        assert words in log, (task, log)

    def is_waiting() -> bool:
        log = airflow.task_log(tasks, "landed")
        return airflow.states(tasks)["landed"] == "deferred" and "pending: " in log

    wait_until(is_waiting, what="`landed` waits for a load", within=WITHIN)
    assert site.load()[1]["rows"] == 100
    assert site.ended(tasks, "landed") == {"landed": "success"}
    destination = f"file://{site.pipeline.root}"
    assert airflow.returned(tasks, "landed")[f"hdfs {destination}"] == 400
    airflow.ask("/dags/page_views_hourly", {"is_paused": False}, method="PATCH")
    deployed = airflow.trigger("page_views_hourly", logical_date=after.isoformat())
    assert site.ended(deployed) == {"page_views_complete": "success", "job": "success"}
    hour = hour_folder(Hour(began))
    assert f"it reads {hour}" in airflow.task_log(deployed, "job")


def _lineage(site: Site) -> None:
    path = f"{site.pipeline.root}/{TOPIC}"

    def events(task: str) -> list[Any]:
        return [
            event
            for event in site.lineage
            if event["job"]["name"] == task and event["eventType"] == "COMPLETE"
        ]

    (first, *_) = wait_until(lambda: events("load.load"), what="the lineage of a load")
    (topic,), (table,) = first["inputs"], first["outputs"]
    assert (topic["namespace"], topic["name"]) == (
        f"kafka://{site.pipeline.broker.bootstrap}",
        TOPIC,
    )
    assert (table["namespace"], table["name"]) == ("file", path)
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 300
    hour = hour_folder(Hour(site.pipeline.began))
    completeness = [
        facet["complete"]
        for event in events("load.load")
        for output in event["outputs"]
        for facet in [output["facets"]["penstock_completeness"]]
    ]
    assert hour in chain.from_iterable(completeness)
    (landed,) = wait_until(lambda: events("hours.landed"), what="the lineage of an hour")
    (table,) = landed["inputs"]
    (assertion,) = table["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert assertion["assertion"].startswith(f"every line of {TOPIC} 20")
    assert (table["namespace"], table["name"]) == ("file", path)
    assert table["inputFacets"]["dataQualityMetrics"]["rowCount"] == 400
    assert assertion["success"] is True


def test_loads_that_fail_or_are_killed(site: Site) -> None:
    airflow = site.airflow
    tasks = airflow.trigger("failures")
    wait_until(lambda: _processes(site, "hanging"), what="the load begins", within=WITHIN)
    airflow.ask(f"{tasks}/hanging", {"new_state": "failed"}, method="PATCH")
    wait_until(lambda: not _processes(site, "hanging"), what="the load ends", within=WITHIN)
    assert site.ended(tasks) == dict.fromkeys(("usage", "brokers_away", "hanging"), "failed")
    assert site.attempts(tasks) == {"usage": 1, "brokers_away": 2, "hanging": 1}
    assert "ended with exit code 2: " in airflow.task_log(tasks, "usage")
    assert "ended with exit code 1: no broker at 127.0.0.1:9" in airflow.task_log(
        tasks, "brokers_away"
    )
    assert "penstock.load stopping" in airflow.task_log(tasks, "hanging")
    assert airflow.returned(tasks, "brokers_away")["exit_code"] == 1


def _processes(site: Site, config: str) -> list[int]:
    """The processes of loads with this configuration."""
    argument = f"--config={site.folder}/{config}.yaml".encode()
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if argument in _command(path)
    ]


def _command(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []
