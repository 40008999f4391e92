"""Offsets of groups in a file: lines of `group,topic,partition,offset`, as Kafka's own tool writes
and reads them for several groups; for one it leaves the group out, which is read too. Or the same
as JSON."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from client.producing.delivery import TopicPartition
from penstock.cli.failures import Failed

Offsets = dict[TopicPartition, int]

_ALONE = 3  # columns, of a file about one group
_WITH_GROUP = 4


def write_csv(stream: TextIO, rows: Iterable[Mapping[str, Any]]) -> None:
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for row in rows:
        writer.writerow([row["group"], row["topic"], row["partition"], row["offset"]])


def read(path: Path, alone: str | None = None) -> dict[str, Offsets]:
    """The offsets of each group. `alone` is which group is meant where none is named."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets write a mark first
    except OSError as error:
        raise Failed(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise Failed(f"{path}: it is no text in UTF-8") from None
    found: dict[str, Offsets] = {}
    for number, columns in _lines(path, text):
        is_alone = len(columns) == _ALONE and alone is not None
        cells = [alone, *columns] if is_alone else columns
        if len(cells) != _WITH_GROUP:
            wanted = "group,topic,partition,offset"
            if alone is not None:
                wanted += ", or these without the group"
            raise Failed(f"{path}, line {number}: {len(cells)} columns are not {wanted}")
        group, topic, partition, offset = cells
        target = TopicPartition(str(topic), _number(path, number, "partition", partition))
        of_group = found.setdefault(str(group), {})
        if target in of_group:
            raise Failed(f"{path}, line {number}: {target} of group {group} is there twice")
        of_group[target] = _number(path, number, "offset", offset)
    if not found:
        raise Failed(f"{path}: no offsets")
    return found


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
    """What `penstock groups export --json` prints; numbered as if each were a line."""
    try:
        for number, item in enumerate(json.loads(text), 1):
            yield number, [item["group"], item["topic"], item["partition"], item["offset"]]
    except (ValueError, TypeError, KeyError) as error:
        raise Failed(f"{path}: it is not what `groups export --json` prints: {error}") from None


def _number(path: Path, line: int, what: str, value: Any) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Failed(f"{path}, line {line}: {text!r} is no {what}")
    return int(text)
