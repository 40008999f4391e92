"""What becomes of pieces: Spark's part, played by a few lines, and the files read back."""

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from loader.landing.pieces import PIECE_END, PIECES, FileKind
from loader.values.reports import LandedWindow, SliceReport
from loader.values.tables import Hour, hour_in_folder

Files = dict[tuple[str, int, str, str], bytes]


def written(pieces: Iterable[pa.RecordBatch]) -> Files:
    """The files as Spark's text writer leaves them, by their folders."""
    files: Files = {}
    for batch in pieces:
        assert batch.schema == PIECES
        kinds, numbers, days, hours, values = batch.columns
        data = values.view(pa.binary()).to_pylist()
        folders = zip(*(each.to_pylist() for each in (kinds, numbers, days, hours)), strict=True)
        for key, value in zip(folders, data, strict=True):
            files[key] = files.get(key, b"") + value + PIECE_END.encode()
    return files


def report_of(files: Files) -> SliceReport:
    (data,) = (data for key, data in files.items() if key[0] == FileKind.REPORT)
    return msgspec.json.decode(data.removesuffix(PIECE_END.encode()), type=SliceReport)


def windows_of(report: SliceReport) -> dict[int, LandedWindow]:
    """Of all accounts, by their start."""
    found: dict[int, LandedWindow] = {}
    for each in (window for account in report.accounts for window in account.windows):
        known = found.get(each.start, LandedWindow(start=each.start))
        found[each.start] = LandedWindow(
            start=each.start,
            rows=known.rows + each.rows,
            duplicates=known.duplicates + each.duplicates,
            dead=known.dead + each.dead,
            bytes=known.bytes + each.bytes,
            crc_sum=known.crc_sum + each.crc_sum,
        )
    return dict(sorted(found.items()))


def rows_by_hour(files: Files) -> dict[Hour, pa.Table]:
    return {
        hour_in_folder(f"dt={day}/hour={hour}"): read(data)
        for (kind, _, day, hour), data in files.items()
        if kind == FileKind.ROWS
    }


def only(files: Files, kind: FileKind) -> pa.Table | None:
    """The one file of a kind, if there is one."""
    found = [read(data) for key, data in files.items() if key[0] == kind]
    assert len(found) <= 1
    return found[0] if found else None


def read(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read()
