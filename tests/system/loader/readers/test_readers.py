"""Which reader reads a table after which change of its schema: the table in
docs/how-to/read-with-spark.md.

Tables are written by loads, and read by each program in a Python of its own; the rows must be those
that were sent. A cell names the first way of reading that gives them. `make readers` writes the
page; this test fails if the page differs.
"""

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from harness.hadoop.foreign_pythons import PythonUnavailable, python_with, version_in
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.config import CompletenessConfig, LoaderConfig
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour, hour_folder
from tests.loader.application import BEGAN, Application, event_schema
from tests.loader.loads import LONG_AGO, Listening, folder_of, no_spark
from tests.system.loader.readers.evolutions import EVOLUTIONS, Evolution

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[3] / "docs" / "how-to" / "read-with-spark.md"
BEGIN, END = "<!-- readers: made by make readers -->\n\n", "<!-- end of readers -->\n"
NEVER: Final = CompletenessConfig(settle=1e12, deadline=1e12)
WRITES: Final = "PENSTOCK_WRITE_READERS" in os.environ
WITHIN_SECONDS: Final = 900.0
OURS: Final = "all"  # what the tests themselves have

_BEFORE: Final = "-before"

Outcomes = dict[str, dict[str, Any]]  # by table and way: rows, or an error


class Reader(msgspec.Struct, frozen=True):
    words: str  # its name in the page, with a place for the version
    requirements: str  # the file of its packages
    package: str
    script: str
    reader: str  # the name in the script

    @property
    def name(self) -> str:
        return self.words.format(version_in(self.requirements, self.package))

    @property
    def key(self) -> str:
        return f"{self.reader}-{self.requirements}"

    def outcomes(self, request: str, folder: Path) -> Outcomes:
        """Runs the reader once, for all tables."""
        python = sys.executable
        if self.requirements != OURS:
            try:
                python = str(python_with(self.requirements))
            except PythonUnavailable as error:
                pytest.skip(str(error))
        folder.mkdir()
        run = subprocess.run(
            [python, str(HERE / self.script), self.reader, str(folder)],
            input=request,
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        assert run.returncode == 0, run.stderr[-5000:]
        outcomes: Outcomes = json.loads(run.stdout.splitlines()[-1])
        return outcomes


READERS: Final = (
    *(
        Reader("Spark {}", requirements, "pyspark", "with_spark.py", "spark")
        for requirements in ("pyspark-3.5", "pyspark-4.0", "pyspark-4.1", "pyspark-4.2", OURS)
    ),
    *(
        Reader("Hive's SerDe, within Spark {}", requirements, "pyspark", "with_spark.py", "hive")
        for requirements in ("pyspark-3.5", OURS)
    ),
    *(
        Reader(words, "readers", package, "without_spark.py", package)
        for words, package in (
            ("pyarrow {}", "pyarrow"),
            ("pandas {}", "pandas"),
            ("Polars {}", "polars"),
            ("DuckDB {}", "duckdb"),
            ("Iceberg: PyIceberg {}, `add_files`", "pyiceberg"),
        )
    ),
)


class Form(msgspec.Struct, frozen=True):
    """What of a table is read: before or after its files got the columns of the table."""

    is_upgraded: bool
    is_hour: bool

    def folder(self, table: Path) -> str:
        """The folder of the hour that has rows of both versions, or of the table."""
        root = table if self.is_upgraded else table.with_name(f"{table.name}{_BEFORE}")
        return str(root / hour_folder(Hour(BEGAN)) if self.is_hour else root)

    def table(self, table: Path) -> str:
        return msgspec.structs.replace(self, is_hour=False).folder(table)

    def __str__(self) -> str:
        if self.is_hour:
            return "a complete hour" if self.is_upgraded else "an hour that is not complete"
        return f"the whole table{' after `load --upgrade-schema`' if self.is_upgraded else ''}"


FORMS: Final = tuple(Form(upgraded, hour) for upgraded in (False, True) for hour in (False, True))


@pytest.fixture(scope="module")
def tables(
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """The folder of each evolution's table, upgraded after a load before and one after the change;
    beside it, a copy from before that."""
    root = tmp_path_factory.mktemp("readers")
    return {
        evolution.name: _written(evolution, running_broker, running_registry, root)
        for evolution in EVOLUTIONS
    }


def _written(
    evolution: Evolution, broker: BrokerProcess, registry: RegistryProcess, root: Path
) -> Path:
    topic = f"readers-{uuid.uuid4().hex[:8]}"
    config = LoaderConfig(
        root=root.as_uri(),
        topics=(topic,),
        brokers=(broker.bootstrap,),
        registry=registry.url,
        completeness=NEVER,
        upgrade_bytes=0,
    )
    folder = folder_of(config, topic)
    schema = event_schema(evolution.before.fields)
    application = Application(broker.bootstrap, registry.url, topic, schema=schema)
    try:
        for write in (evolution.write, evolution.change):
            write(application)
            _load(config, LoadRequest())
    finally:
        application.close()
    shutil.copytree(folder, folder.with_name(f"{topic}{_BEFORE}"))
    _load(msgspec.structs.replace(config, completeness=LONG_AGO), LoadRequest(upgrade_schema=True))
    assert (folder / hour_folder(Hour(BEGAN)) / "_SUCCESS").exists()
    return folder


def _load(config: LoaderConfig, request: LoadRequest) -> None:
    (outcome,) = load(config, request, no_spark, Listening())
    assert (outcome.error, outcome.dead) == (None, 0)


def test_the_page_says_what_each_reader_reads(tables: dict[str, Path], tmp_path: Path) -> None:
    wanted = {
        f"{evolution.name}, {form}": (form.folder(tables[evolution.name]), evolution, form)
        for form in FORMS
        for evolution in EVOLUTIONS
    }
    request = {
        key: (form.table(tables[evolution.name]), folder, evolution.columns)
        for key, (folder, evolution, form) in wanted.items()
    }
    cells: dict[Form, dict[str, list[str]]] = {form: {} for form in FORMS}
    for reader in READERS:
        outcomes = reader.outcomes(json.dumps(request), tmp_path / reader.key)
        for form in FORMS:
            cells[form][reader.name] = [
                _way(outcomes[f"{evolution.name}, {form}"], evolution.rows(hour=form.is_hour))
                for evolution in EVOLUTIONS
            ]
    text = "".join(_table(form, rows) for form, rows in cells.items())
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    present, _, after = rest.partition(END)
    if WRITES:
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")
    else:
        assert present == text, text


def _seq(row: Mapping[str, Any]) -> int:
    return int(row["seq"])


def _way(outcomes: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]]) -> str:
    """The first way of reading that gives the rows, and a warning where the plain one gives wrong
    ones."""
    wrong = ", else wrong" if isinstance(outcomes["yes"], list) else ""
    return next(
        (
            way if way == "yes" else f"{way}{wrong}"
            for way, rows in outcomes.items()
            if isinstance(rows, list) and sorted(rows, key=_seq) == wanted
        ),
        "no",
    )


def _table(form: Form, cells: Mapping[str, Sequence[str]]) -> str:
    """Markdown; a sentence if there is nothing to tell apart."""
    if all(way == "yes" for ways in cells.values() for way in ways):
        words = str(form)
        return f"{words[0].upper()}{words[1:]}: each program reads all rows the plain way.\n\n"
    rows = [
        [str(form), *(evolution.name for evolution in EVOLUTIONS)],
        ["---"] * (len(EVOLUTIONS) + 1),
        *([name, *ways] for name, ways in cells.items()),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"
