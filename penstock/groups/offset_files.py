"""Files with offsets of groups, in the formats of Kafka's tool, or as JSON.

Lines are `group,topic,partition,offset`; in a file about one group, the group may be missing.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from client.producing.delivery import TopicPartition
from penstock.cli.failures import Failed

Offsets = dict[TopicPartition, int]

_ALONE = 3  # columns of a file about one group
_WITH_GROUP = 4


def write_csv(stream: TextIO, rows: Iterable[Mapping[str, Any]]) -> None:
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for row in rows:
        writer.writerow([row["group"], row["topic"], row["partition"], row["offset"]])


def read(path: Path, alone: str | None = None) -> dict[str, Offsets]:
    """Reads the offsets of each group. `alone` is the group of lines that do not name one."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets write a byte order mark
    except OSError as error:
        raise Failed(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise Failed(f"{path}: not UTF-8 text") from None
    offsets: dict[str, Offsets] = {}
    for number, columns in _lines(path, text):
        is_alone = len(columns) == _ALONE and alone is not None
        cells = [alone, *columns] if is_alone else columns
        if len(cells) != _WITH_GROUP:
            form = "group,topic,partition,offset"
            if alone is not None:
                form += ", or these without the group"
            raise Failed(f"{path}, line {number}: {len(cells)} columns; expected {form}")
        group, topic, partition, offset = cells
        target = TopicPartition(str(topic), _number(path, number, "partition", partition))
        group_offsets = offsets.setdefault(str(group), {})
        if target in group_offsets:
            raise Failed(f"{path}, line {number}: duplicate entry for {target} of group {group}")
        group_offsets[target] = _number(path, number, "offset", offset)
    if not offsets:
        raise Failed(f"{path}: no offsets")
    return offsets


def _lines(path: Path, text: str) -> Iterable[tuple[int, Sequence[Any]]]:
    if text.lstrip().startswith("["):
        yield from _objects(path, text)
        return
    reader = csv.reader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise Failed(f"{path}, line {reader.line_num}: {error}") from None


def _objects(path: Path, text: str) -> Iterable[tuple[int, Sequence[Any]]]:
    """The entries of `penstock groups export --json`, numbered like lines."""
    try:
        for entry_number, item in enumerate(json.loads(text), 1):
            yield entry_number, [item["group"], item["topic"], item["partition"], item["offset"]]
    except (ValueError, TypeError, KeyError) as error:
        raise Failed(f"{path}: not an output of `groups export --json`: {error}") from None


def _number(path: Path, line: int, what: str, value: Any) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Failed(f"{path}, line {line}: {text!r} is not a valid {what}")
    return int(text)
