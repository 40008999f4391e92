"""Up to where compacted logs were cleaned: kept in the data directory, and not for namesakes."""

from pathlib import Path

from broker.data_directory import DataDirectory

FILE = "cleaner-offset-checkpoint"
A, B, C = ("a", 0), ("a", 1), ("c", 0)


def test_what_was_cleaned_is_known_after_a_restart(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    assert data.cleaned(A) == 0
    data.note_cleaned(A, 7)
    data.note_cleaned(B, 9)
    data.note_cleaned(C, 11)
    data.write_cleaned([A, B])
    assert (tmp_path / FILE).read_text() == "0\n2\na 0 7\na 1 9\n"
    data.release()
    again = DataDirectory(tmp_path)
    assert [again.cleaned(key) for key in (A, B, C)] == [7, 9, 0]
    again.release()


def test_a_new_partition_knows_nothing_of_its_namesake(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.note_cleaned(A, 7)
    data.note_cleaned(B, 9)
    data.write_cleaned([A, B])
    data.forget_checkpoint(A)
    assert data.cleaned(A) == 0
    data.release()
    again = DataDirectory(tmp_path)
    assert [again.cleaned(key) for key in (A, B)] == [0, 9]
    again.release()


def test_a_damaged_file_costs_a_cleaning_and_no_start(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("0\n5\na 0 7\n")
    data = DataDirectory(tmp_path)
    assert data.cleaned(A) == 0
    data.release()
