"""Small files of hours become few without Spark, where there is little of them: the driver joins
them itself, hour by hour, as tasks would. Of Parquet alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from loader.errors import StoreError
from loader.hours.closing import Merge, Merged
from loader.landing.without_spark import opened, rows_in_file, write_pieces
from loader.rewriting.groups import Footer, Group, entries_of, groups_of, verified
from loader.rewriting.joined_rows import join_files
from loader.rewriting.row_format import RowFormat
from loader.store.store import Store

HOUR_BYTES: Final = 4 * 1024 * 1024  # of one hour's files, which take ten times that in memory
ALL_BYTES: Final = 32 * 1024 * 1024  # of a table's, in one load: a second or two


def is_little(merges: Sequence[Merge]) -> bool:
    """Whether the driver joins these files itself."""
    sizes = [each.bytes for each in merges]
    return max(sizes, default=0) <= HOUR_BYTES and sum(sizes) <= ALL_BYTES


def merge_without_spark(
    store: Store,
    merges: Sequence[Merge],
    sizes: Mapping[str, int],
    *,
    directory: str,
    target: RowFormat,
) -> tuple[Merged, ...]:
    """As `merge_hours`. Raises TooLarge if they grow too much, and StoreError."""
    groups: list[Group] = []
    rows: dict[str, int] = {}
    for merge in merges:
        files = {path: opened(store, path) for path in merge.files}
        rows |= {path: each.metadata.num_rows for path, each in files.items()}
        # What is before the brace is a name that whoever wrote the file has given it.
        known = {path: Footer(str(each.schema).partition("{")[2]) for path, each in files.items()}
        for group in groups_of([merge], sizes, known, first=len(groups)):
            mine = [files[path] for path in group.files]
            try:
                pieces = join_files(mine, group.number, merge.hour, target.compression)
                write_pieces(store, pieces, f"{directory}/joined")
            except (pa.ArrowException, OSError) as error:
                raise StoreError(f"{group.files[0]} and others cannot be read: {error}") from error
            groups.append(group)
    entries = entries_of(store, directory, groups)
    rows |= {entry.path: rows_in_file(store, entry.path) for entry in entries}
    return verified(groups, entries, rows.__getitem__, target)
