"""A file as it is read, while it grows: only what is complete, and what is not when it is time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.accounting.runs import Progress, SourceId
from agent.configuration.config import AgentLimits, HoldDeleted, Times
from agent.configuration.file_inputs import FileInput
from agent.configuration.inputs import Input
from agent.encoding.events.reader import EventReader
from agent.files.files import Files
from agent.reading.intake import Intake
from schemas.event_schemas import LOG_LINE, built_in

MILLIS = 1_795_185_000_000
TIMEOUT = 5.0


class Reading:
    """One file that is written to, and read by an intake, at times that the test gives."""

    def __init__(self, files: Files, path: Path, input_: Input) -> None:
        self.now = 100.0
        self.taken: list[tuple[int, bytes]] = []  # position and message
        self.dead: list[tuple[int, int]] = []  # position and size
        self._files, self._path = files, path
        self._reader = EventReader(input_, built_in(LOG_LINE), Times())
        self._path.write_bytes(b"first\n")
        files.look(self.now)
        (self._followed,) = files.following()
        self._intake = Intake(self._followed, self.now)
        self.read()

    def write(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)

    def read(self, after: float = 0.0, most_lines: int | None = None) -> int:
        """All that can be taken now; where it stands then."""
        self.now += after
        self._files.look(self.now)
        for _ in range(20):
            if not self._followed.unread or not self._intake.is_due(self.now):
                break
            cut = self._intake.take(self._reader, self.now, MILLIS, most_lines)
            if cut is not None:
                if cut.events is not None:
                    self.taken += zip(cut.events.positions, cut.events.bodies, strict=True)
                self.dead += [(each.position, each.size) for each in cut.dead]
                end = self._followed.progress.position + cut.consumed
                self._followed.progress = Progress(end)
                if most_lines is not None:
                    break
        else:
            raise AssertionError("it is due again and again, and nothing comes of it")
        return self._followed.progress.position


@contextmanager
def reading(directory: Path, **more: object) -> Iterator[Reading]:
    path = directory / "a.log"
    given = {"paths": (str(path),), "topic": "logs", "last_line_timeout": TIMEOUT, **more}
    input_ = Input(**given)  # type: ignore[arg-type]
    now = [100.0]
    files = Files(
        [FileInput.of(input_)],
        [],
        lambda: SourceId("source"),
        AgentLimits(),
        HoldDeleted(),
        0.001,
        clock=lambda: now[0],
        events=False,
    )
    try:
        yield Reading(files, path, input_)
    finally:
        files.close()


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    with reading(tmp_path) as file:
        file.write(b"second\nhal")
        assert file.read(1) == 13
        file.write(b"f a")
        assert file.read(TIMEOUT - 1) == 13
        file.write(b" line\n")
        file.read(1)
        assert file.taken == [(0, b"first"), (6, b"second"), (13, b"half a line")]


def test_half_a_line_is_taken_when_nothing_has_come_for_long(tmp_path: Path) -> None:
    with reading(tmp_path) as file:
        file.write(b"half")
        assert file.read(1) == 6
        assert file.read(TIMEOUT + 1) == 10
        assert file.taken[1:] == [(6, b"half")]


def test_a_long_line_behind_whole_ones_waits_for_its_end(tmp_path: Path) -> None:
    """What may be taken at once of a piece says nothing of what is left of it."""
    with reading(tmp_path, max_line_bytes=10) as file:
        file.write(b"second\n" + b"y" * 30)
        assert file.read(1) == 13
        file.write(b"y" * 30)
        assert file.read(TIMEOUT - 1) == 13
        file.write(b"\nlast\n")
        file.read(1)
        assert file.taken[1:] == [(6, b"second"), (13, b"y" * 10), (74, b"last")]


def test_a_long_line_without_end_is_taken_when_nothing_has_come_for_long(tmp_path: Path) -> None:
    with reading(tmp_path, max_line_bytes=10, long_lines="dead") as file:
        file.write(b"y" * 30)
        assert file.read(1) == 6
        file.write(b"y" * 30)
        assert file.read(1) == 6
        assert file.read(TIMEOUT + 1) == 66
        assert file.dead == [(6, 60)]


def test_a_limit_of_lines_does_not_cut_what_is_behind_them(tmp_path: Path) -> None:
    with reading(tmp_path) as file:
        file.write(b"second\nthird\nhalf")
        assert file.read(1, most_lines=1) == 13
        assert file.read(1, most_lines=1) == 19
        assert file.read(1, most_lines=1) == 19
        file.write(b" a line\n")
        file.read(1, most_lines=1)
        assert file.taken[1:] == [(6, b"second"), (13, b"third"), (19, b"half a line")]
