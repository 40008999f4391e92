"""The inputs that were followed before, as a start finds them."""

from pathlib import Path

import pytest

from agent.file_inputs import read_inputs, write_inputs


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_inputs(tmp_path) == {}
    write_inputs(tmp_path, {"web"}, 100)
    write_inputs(tmp_path, {"web", "caf\u00e9"}, 200)
    assert read_inputs(tmp_path) == {"web": 100, "caf\u00e9": 200}
    write_inputs(tmp_path, {"web"}, 300)
    assert read_inputs(tmp_path) == {"web": 100}
    assert [path.name for path in tmp_path.iterdir()] == ["inputs.json"]


def test_since_when_is_not_known_of_names_alone(tmp_path: Path) -> None:
    """As Penstock 0.1 has them."""
    (tmp_path / "inputs.json").write_text('["web"]')
    assert read_inputs(tmp_path) == {"web": 0}
    write_inputs(tmp_path, {"web", "db"}, 9_000)
    assert read_inputs(tmp_path) == {"web": 0, "db": 9_000}


@pytest.mark.parametrize(
    "damaged", [b"", b"[", b"\xff", b"5", b"[1]", b"[[]]", b'{"web": "1"}', b'{"web": true}']
)
def test_damage_is_no_empty_list(tmp_path: Path, damaged: bytes) -> None:
    """Otherwise every input would begin as a new one does."""
    (tmp_path / "inputs.json").write_bytes(damaged)
    assert read_inputs(tmp_path) is None
    write_inputs(tmp_path, {"web"}, 100)
    assert read_inputs(tmp_path) == {"web": 100}
