"""Files of offsets, as `penstock groups export` writes them and spreadsheets do."""

import json
from io import StringIO
from pathlib import Path

import pytest

from client.producing.delivery import TopicPartition
from penstock.groups.offset_files import read, write_csv


@pytest.mark.parametrize("group", ["billing", "a\nb", "a\rb", "a\u2028b", 'a"b', " a", ""])
@pytest.mark.parametrize("begins", ["", "\ufeff"])
def test_what_was_written_is_read(tmp_path: Path, group: str, begins: str) -> None:
    row = {"group": group, "topic": "clicks", "partition": 3, "offset": 4_711}
    stream = StringIO()
    write_csv(stream, [row])
    for text in (stream.getvalue(), json.dumps([row])):
        file = tmp_path / "offsets"
        file.write_bytes((begins + text).encode())
        assert read(file) == {group: {TopicPartition("clicks", 3): 4_711}}
