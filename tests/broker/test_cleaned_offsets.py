"""Up to where compacted logs were cleaned: kept in the data directory, and not for namesakes."""

from pathlib import Path

from broker.replicas.data_directory import DataDirectory

FILE = "cleaner-offset-checkpoint"
A, B, C = ("a", 0), ("a", 1), ("c", 0)


def cleaned(directory: Path, *keys: tuple[str, int]) -> list[int]:
    """As it is known after a restart."""
    data = DataDirectory(directory)
    found = [data.cleaned(key) for key in keys]
    data.release()
    return found


def test_what_was_cleaned_is_known_after_a_restart_and_not_of_a_namesake(tmp_path: Path) -> None:
    assert cleaned(tmp_path, A) == [0]
    data = DataDirectory(tmp_path)
    for key, offset in ((A, 7), (B, 9), (C, 11)):
        data.note_cleaned(key, offset)
    data.write_cleaned([A, B])
    assert (tmp_path / FILE).read_text() == "0\n2\na 0 7\na 1 9\n"
    data.release()
    assert cleaned(tmp_path, A, B, C) == [7, 9, 0]
    data = DataDirectory(tmp_path)
    data.forget_checkpoint(A)
    assert data.cleaned(A) == 0
    data.release()
    assert cleaned(tmp_path, A, B) == [0, 9]


def test_a_damaged_file_costs_a_cleaning_and_no_start(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("0\n5\na 0 7\n")
    assert cleaned(tmp_path, A) == [0]
