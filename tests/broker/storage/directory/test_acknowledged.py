"""What is remembered of partitions outside their directories: written, read, damaged, removed."""

import os
from pathlib import Path
from uuid import UUID

from broker.storage.directory.acknowledged import AcknowledgedFile, AcknowledgedRange

ONE, TWO = UUID(int=1), UUID(int=2)
SLOT = 64


def written(path: Path) -> AcknowledgedFile:
    file = AcknowledgedFile(path)
    file.slot(ONE, 0).begin(0, 10, 3)
    file.slot(ONE, 0).note(5, 70)
    file.slot(TWO, 7).begin(0, 0, 0)
    file.sync()
    return file


def test_a_kill_forgets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    before = written(path)
    again = AcknowledgedFile(path)  # nothing was closed
    assert again.known(ONE, 0) == AcknowledgedRange(5, 70, 3, exact=True)
    assert again.known(TWO, 7) == AcknowledgedRange(0, 0, 0, exact=True)
    assert again.known(TWO, 0) is None
    before.close()
    again.close()


def test_a_slot_that_was_asked_for_knows_nothing_yet(tmp_path: Path) -> None:
    file = AcknowledgedFile(tmp_path / "acknowledged")
    file.slot(ONE, 0)
    assert file.known(ONE, 0) is None
    file.close()


def test_after_another_boot_it_is_a_lower_bound(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    first = AcknowledgedFile(path)
    first.boot = b"earlier."
    first.slot(ONE, 0).begin(0, 10, 0)
    first.close()
    again = AcknowledgedFile(path)
    assert again.known(ONE, 0) == AcknowledgedRange(0, 10, 0, exact=False)
    again.close()
    again = AcknowledgedFile(path, clean=True)
    assert again.known(ONE, 0) == AcknowledgedRange(0, 10, 0, exact=True)
    again.close()


def test_a_damaged_slot_is_none_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    written(path).close()
    for position in range(SLOT):
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        damaged = tmp_path / "damaged"
        damaged.write_bytes(content)
        file = AcknowledgedFile(damaged)
        assert file.known(ONE, 0) is None, position
        assert file.known(TWO, 7) == AcknowledgedRange(0, 0, 0, exact=True)
        file.slot(ONE, 0).begin(1, 2, 0)
        file.close()
        again = AcknowledgedFile(damaged)
        assert again.known(ONE, 0) == AcknowledgedRange(1, 2, 0, exact=True)
        again.close()


def test_a_file_that_is_cut_is_believed_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    for left in (0, 1, SLOT - 1, SLOT, SLOT + 1):
        path.unlink(missing_ok=True)
        written(path).close()
        os.truncate(path, left)
        file = AcknowledgedFile(path)
        assert (file.known(ONE, 0) is not None) == (left >= SLOT)
        file.slot(TWO, 7).begin(3, 4, 5)
        file.close()
        again = AcknowledgedFile(path)
        assert again.known(TWO, 7) == AcknowledgedRange(3, 4, 5, exact=True)
        again.close()


def test_many_partitions_and_those_that_go(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    file = AcknowledgedFile(path)
    for number in range(300):
        file.slot(ONE, number).begin(number, 2 * number, 0)
    for number in range(0, 300, 2):
        file.forget(ONE, number)
    size = path.stat().st_size
    for number in range(100):
        file.slot(TWO, number).begin(0, number, 0)
    assert path.stat().st_size == size, "what was free is used again"
    file.close()
    again = AcknowledgedFile(path)
    assert {identity: again.known(*identity) for identity in again.identities()} == {
        **{(ONE, n): AcknowledgedRange(n, 2 * n, 0, exact=True) for n in range(1, 300, 2)},
        **{(TWO, n): AcknowledgedRange(0, n, 0, exact=True) for n in range(100)},
    }
    again.close()


def test_a_file_that_is_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged"
    file = written(path)
    path.unlink()
    file.slot(ONE, 0).note(6, 90)
    file.sync()
    file.slot(TWO, 7).note(0, 8)
    again = AcknowledgedFile(path)
    assert again.known(ONE, 0) == AcknowledgedRange(6, 90, 3, exact=True)
    assert again.known(TWO, 7) == AcknowledgedRange(0, 8, 0, exact=True)
    file.close()
    again.close()
