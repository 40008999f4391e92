"""What the quick start reads a table with, on a table whose schema has changed meanwhile."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from loader.decoding.widening import widened
from loader.run.table_form import COMMON_METADATA
from tests.docs.pages import blocks_of

QUICK_START = Path(__file__).resolve().parent.parent.parent / "docs" / "quick-start.md"
BEYOND_AN_INT = 3_000_000_000


def land(table: Path, hour: int, rows: pa.Table) -> pa.Table:
    folder = table / "dt=2026-11-20" / f"hour={hour:02}"
    folder.mkdir(parents=True)
    parquet.write_table(rows, folder / f"part-local-0-{hour}-{hour + 1}-{hour}.parquet")
    (folder / "_SUCCESS").write_text("{}")
    return rows


def test_rows_of_before_and_after_are_read_together(tmp_path: Path) -> None:
    """An int became a long, a float a double, and a field was added."""
    before = land(
        tmp_path,
        7,
        pa.table({"seq": pa.array([1], pa.int32()), "message": pa.array([0.5], pa.float32())}),
    )
    after = {"seq": pa.array([BEYOND_AN_INT], pa.int64()), "message": pa.array([0.1])}
    latest = land(tmp_path, 8, pa.table({**after, "country": ["AT"]}))
    columns = widened(before.schema, latest.schema)  # as the loader does
    parquet.write_metadata(columns, tmp_path / COMMON_METADATA, store_schema=False)
    (code,) = [each.text for each in blocks_of(QUICK_START) if each.language == "python"]
    wanted = code.replace("penstock-data/warehouse/shop", str(tmp_path))
    assert wanted != code
    ended = subprocess.run(
        [sys.executable, "-c", wanted], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "{'seq': 1, 'message': 0.5}",
        f"{{'seq': {BEYOND_AN_INT}, 'message': 0.1}}",
    ]
