"""Which file it is of which nothing was ever seen but what is said of it."""

from tests.campaigns.witness.guessing import guess_files
from tests.campaigns.witness.truth import File, Line
from tests.campaigns.witness.verdict import Called

PATH = "/logs/one/a.log"


def file_of(number: int, *ends: int, written: int = 1000) -> File:
    """With lines that end at these bytes."""
    file = File("a", number, [PATH], size=ends[-1])
    for index, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
        file.lines.append(Line(f"{number} {index}", file, index, start, end, written))
    return file


def said(source: str, position: int, end_position: int, events: int = -1) -> Called:
    return Called(
        *("missing", "not at the brokers"),
        path=PATH,
        source=source,
        events=events,
        position=position,
        end_position=end_position,
        from_time=1000,
    )


def guessed(files: list[File], *called: Called) -> dict[str, int]:
    lost = {line.text for file in files for line in file.lines}
    return {source: file.number for source, file in guess_files(called, files, lost).items()}


def test_a_stretch_begins_and_ends_where_lines_do() -> None:
    files = [file_of(1, 20, 50, 90), file_of(2, 30, 60), file_of(3, 10, 60, 80, written=9000)]
    called = said("s3", 0, 60), said("s2", 30, 60), said("s1", 50, 90)
    assert guessed(files, *called) == {"s1": 1, "s2": 2, "s3": 3}


def test_all_that_is_said_of_a_source_must_fit() -> None:
    files = [file_of(1, 30, 60, 100), file_of(2, 30, 70, 100), file_of(3, 30, 80, 100)]
    assert guessed(files, said("s1", 0, 30), said("s1", 30, 80)) == {"s1": 3}


def test_there_are_as_many_lines_as_events() -> None:
    files = [file_of(1, 30, 60), file_of(2, 30, 40, 60), file_of(3, 60)]
    called = said("s2", 0, 60, events=3), said("s3", 0, 60, events=1)
    assert guessed(files, *called) == {"s2": 2, "s3": 3}


def test_the_beginning_of_a_line_may_have_been_all_there_was() -> None:
    files = [file_of(1, 30, 65), file_of(2, 30, 60)]
    files[1].lines[1].beginning = "x" * 12
    assert guessed(files, said("s1", 42, -1)) == {"s1": 2}


def test_a_file_is_one_source_only_and_had_its_path() -> None:
    elsewhere = file_of(1, 30)
    elsewhere.names = ["/logs/two/c.log"]
    assert guessed([elsewhere, file_of(2, 30)], said("s1", 0, 30), said("s2", 0, 30)) == {"s1": 2}
