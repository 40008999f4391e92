"""Which file is which: tables of cases, and what holds for all files. No disk is asked."""

import zlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.accounting.runs import KnownSource, Progress, SourceId
from agent.files.listing import Listing, places
from agent.recognition.identity import (
    FULL,
    PATIENCE,
    TAIL,
    Compared,
    Identity,
    IdentityVerdict,
    RememberedFile,
    SeenFile,
    Sighting,
    Where,
    archived,
    begins,
    best,
    distance,
    doubted,
    fingerprint,
    is_shown,
    is_unchanged,
    is_untouched,
    kept,
    left_in_copy,
    may_be_archive,
    may_be_archived,
    may_be_copied,
    may_be_made,
    may_be_met,
    met,
    moved_away,
    reopened,
    replaced,
    shows_emptied,
    sought,
    taken_over,
    undecided,
    were_made_apart,
    whereabouts,
)

HERE: Identity = (1, 10)
BORN = 5_000_000_000
TEXT = b"".join(b"%05d" % at for at in range(400))
POSITION = 1500
SAME, COPY, NEW, WAIT, LOST = IdentityVerdict


def known(text: bytes = TEXT, position: int = POSITION) -> RememberedFile:
    """A file of which everything is known."""
    head = text[:FULL]
    return RememberedFile(
        HERE,
        born_ns=BORN,
        there_millis=9_000,
        fingerprint=fingerprint(head),
        head=head,
        position=position,
        tail=text[max(0, position - TAIL) : position],
        size=len(text),
        begun_ns=BORN,
    )


def only_marked(file: RememberedFile) -> RememberedFile:
    """As it is known over a restart."""
    return replace(file, head=b"", tail=b"", mark=zlib.crc32(file.tail))


def shown(
    text: bytes = TEXT,
    position: int = POSITION,
    *,
    mtime_ns: int = 6_000_000_000,
    born_ns: int = BORN,
) -> SeenFile:
    """The same file, as it shows itself."""
    before = text[max(0, position - TAIL) : position]
    return SeenFile(len(text), HERE, mtime_ns, born_ns, text[:FULL], before)


def in_journal(**other: object) -> KnownSource:
    source = KnownSource(
        SourceId("s"),
        *("in", "t", "/l/a", *HERE, fingerprint(TEXT)),
        Progress(POSITION, mark=zlib.crc32(TEXT[POSITION - TAIL : POSITION])),
        size=len(TEXT),
        seen_millis=9_000,
        born_ns=BORN,
    )
    return replace(source, **other)


ANOTHER_BEGINNING = b"#" + TEXT[1:]
ANOTHER_TAIL = TEXT[: POSITION - 1] + b"#" + TEXT[POSITION:]


# Rules 2 to 6: where a file is, and whether it is still the same one


@dataclass
class File:
    current_path: str = "/l/a"
    identity: tuple[int, int] = (1, 10)
    size: int = 5
    mtime_ns: int = 7
    fd: int | None = None


def seen(path: str, inode: int = 10, size: int = 5, mtime_ns: int = 7) -> Sighting:
    return Sighting(path, 1, inode, size, mtime_ns, False)


def listing(*sightings: Sighting, complete: bool = True) -> Listing:
    return Listing(list(sightings), {"/l"}, complete=complete)


@pytest.mark.parametrize(
    ("listed", "where"),
    [
        (listing(seen("/l/a")), Where.SAME),
        (listing(seen("/l/a", size=6)), Where.CHANGED),
        (listing(seen("/l/a", mtime_ns=8)), Where.CHANGED),
        (listing(seen("/l/a.1")), Where.MOVED),
        (listing(seen("/l/a", inode=11), seen("/l/a.1")), Where.MOVED),
        (listing(seen("/l/a", inode=11)), Where.MISSING),
        (listing(), Where.MISSING),
        (Listing(folders={"/other"}), Where.UNKNOWN),
        (Listing([seen("/other/a")], {"/other"}), Where.UNKNOWN),  # a link, as long as /l is silent
    ],
)
def test_where_a_file_is(listed: Listing, where: Where) -> None:
    assert whereabouts(File(), listed, places(listed.sightings)).where is where


@pytest.mark.parametrize("complete", [True, False])
def test_a_folder_that_cannot_be_listed_says_nothing(complete: bool) -> None:
    failing = Listing([], {"/l"}, {"/l": PermissionError()}, complete=complete)
    assert whereabouts(File(), failing, {}).where is Where.UNKNOWN
    below = File(current_path="/l/deep/er/a")
    assert whereabouts(below, failing, {}).where is Where.UNKNOWN
    file = Listing([], {"/l"}, {"/l/a": OSError()}, complete=complete)
    assert whereabouts(File(), file, {}).where is Where.UNKNOWN


def test_a_name_that_is_no_link_is_better() -> None:
    link = Sighting("/l/a", 1, 10, 5, 7, True)
    assert best([link, seen("/l/z"), seen("/l/y")]).path == "/l/y"


def test_a_file_to_which_nothing_was_done_is_the_same() -> None:
    file = seen("/l/a")
    assert is_unchanged(file, file._replace(path="/l/b"))
    for other in (file._replace(size=6), file._replace(mtime_ns=8), file._replace(ctime_ns=1)):
        assert not is_unchanged(file, other)
    assert is_untouched(File(), HERE, 5, 7)
    for identity, size, mtime_ns in (((1, 11), 5, 7), (HERE, 6, 7), (HERE, 5, 8)):
        assert not is_untouched(File(), identity, size, mtime_ns)


@pytest.mark.parametrize(
    ("born", "last_there", "made", "possible"),
    [
        (BORN, 9_000, BORN, True),
        (BORN, 9_000, BORN + 1, False),
        (BORN, 9_000, BORN - 1, False),
        (BORN, 9_000, 0, True),  # the file system does not know
        (0, 9_000, 9_000_000_000, True),
        (0, 9_000, 9_000_000_001, False),
        (0, 0, BORN, True),
    ],
)
def test_when_it_was_made(born: int, last_there: int, made: int, possible: bool) -> None:
    file = RememberedFile(HERE, born_ns=born, there_millis=last_there)
    assert may_be_made(file, made) is possible


def test_made_apart_is_only_what_is_known_of_both() -> None:
    assert were_made_apart(1, 2)
    assert not any(were_made_apart(*each) for each in ((1, 1), (0, 2), (1, 0)))


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (shown(), SAME),
        (shown(TEXT + b"more"), SAME),
        (shown(TEXT[:FULL]), SAME),  # what it has lost is for the next read to find
        (shown(TEXT[: FULL - 1]), LOST),
        (shown(ANOTHER_BEGINNING), LOST),
        (shown(born_ns=BORN + 1), LOST),
        (shown(born_ns=0), SAME),
        (replace(shown(), identity=(1, 11)), LOST),
        (replace(shown(), identity=(2, 10)), LOST),
    ],
)
def test_a_file_that_was_closed(there: SeenFile, verdict: IdentityVerdict) -> None:
    assert reopened(known(), there) is verdict
    assert reopened(only_marked(known()), there) is verdict


@pytest.mark.parametrize(
    ("born", "text", "shows"), [(0, b"", False), (1, b"", True), (0, b"x", True)]
)
def test_without_a_beginning_or_a_birth_nothing_shows_what_it_is(
    born: int, text: bytes, shows: bool
) -> None:
    assert is_shown(RememberedFile(HERE, born_ns=born, fingerprint=fingerprint(text))) is shows


# Rule 7: doubt


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (shown(), SAME),
        (shown(TEXT + b"more"), SAME),
        (shown(TEXT[:-1]), NEW),
        (shown(ANOTHER_BEGINNING), NEW),
        (shown(ANOTHER_TAIL), NEW),
        (shown(b""), NEW),
    ],
)
def test_a_file_in_doubt(there: SeenFile, verdict: IdentityVerdict) -> None:
    assert doubted(known(), there) is verdict
    assert doubted(only_marked(known()), there) is verdict


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (SeenFile(0, HERE, born_ns=BORN), NEW),
        (SeenFile(0, HERE, born_ns=BORN + 1), LOST),
        (SeenFile(0, (1, 11), born_ns=BORN), LOST),
    ],
)
def test_a_file_that_was_truncated_and_then_renamed(
    there: SeenFile, verdict: IdentityVerdict
) -> None:
    assert moved_away(known(), there) is verdict
    unknown = replace(known(), born_ns=0)
    assert moved_away(unknown, replace(there, born_ns=0)) is LOST


# Rules 8 and 9: over a restart


def at(path: str, device: int = 1) -> Sighting:
    return Sighting(path, device, 10, len(TEXT), 7, False)


@pytest.mark.parametrize(
    ("source", "sighting", "born", "asked"),
    [
        (in_journal(), at("/l/other"), 0, True),
        (in_journal(fingerprint=fingerprint(b"")), at("/l/other"), 0, False),
        (in_journal(fingerprint=fingerprint(b"")), at("/l/other"), BORN, True),
        (in_journal(fingerprint=fingerprint(b""), born_ns=0), at("/l/other"), 0, False),
        (in_journal(fingerprint=fingerprint(b"")), at("/l/a"), 0, True),
        (in_journal(fingerprint=fingerprint(b""), last_path="/l/b"), at("/l/b"), 0, True),
        (in_journal(), at("/l/other", device=2), 0, True),
        (in_journal(), at("/m/a", device=2), 0, False),
        (in_journal(last_path="/m/b"), at("/m/a", device=2), 0, True),
        (in_journal(fingerprint=fingerprint(b"short")), at("/l/b", device=2), 0, False),
        (in_journal(fingerprint=fingerprint(b"short")), at("/l/a", device=2), 0, True),
        (in_journal(fingerprint=fingerprint(b"")), at("/l/a", device=2), BORN, False),
    ],
)
def test_what_is_held_against_a_source_of_a_journal(
    source: KnownSource, sighting: Sighting, born: int, asked: bool
) -> None:
    assert may_be_met(source, sighting, born) is asked


EMPTY = fingerprint(b"")


@pytest.mark.parametrize(
    ("source", "there", "verdict"),
    [
        (in_journal(), shown(), SAME),
        (in_journal(), shown(TEXT + b"more"), SAME),
        (in_journal(finished=True), shown(), SAME),
        (in_journal(finished=True, fingerprint=EMPTY), shown(), NEW),
        (in_journal(), shown(born_ns=9_000_000_001), NEW),
        (in_journal(), shown(born_ns=BORN + 1), SAME),  # but not made after it was last seen
        (in_journal(), shown(ANOTHER_BEGINNING), NEW),
        (in_journal(), shown(ANOTHER_TAIL), NEW),
        (in_journal(progress=Progress(POSITION)), shown(ANOTHER_TAIL), SAME),  # nothing is known
        (in_journal(), shown(TEXT[: POSITION - 1]), NEW),
        (in_journal(size=1200), shown(TEXT[:1200]), NEW),
        (in_journal(size=1200, last_path="/l/copy"), shown(TEXT[:1200]), SAME),
        (in_journal(size=1201, last_path="/l/copy"), shown(TEXT[:1200]), NEW),
    ],
)
def test_a_source_of_a_journal(
    source: KnownSource, there: SeenFile, verdict: IdentityVerdict
) -> None:
    assert met(source, there) is verdict


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (shown(), SAME),
        (shown(b""), NEW),
        (shown(ANOTHER_BEGINNING), NEW),
        (shown(ANOTHER_BEGINNING, born_ns=9_000_000_001), LOST),
        (shown(born_ns=9_000_000_001), LOST),
    ],
)
def test_a_descriptor_that_was_kept(there: SeenFile, verdict: IdentityVerdict) -> None:
    assert kept(in_journal(), there) is verdict


# Rules 10 and 11: a file beside one that is there


def is_there(size: int, *, has_all: bool = True) -> Compared:
    return Compared(size, is_certain=True, has_all=has_all)


@pytest.mark.parametrize(
    ("size", "originals", "unchanged_for", "verdict"),
    [
        (2000, [], 0.0, NEW),
        (2000, [is_there(2000)], 0.0, WAIT),
        (2000, [is_there(3000)], PATIENCE / 2, WAIT),
        (2000, [is_there(2000)], PATIENCE, NEW),
        (2000, [is_there(2000, has_all=False)], 0.0, NEW),
        (2001, [is_there(2000)], 0.0, NEW),  # it has what the other one has not
        (2000, [Compared()], PATIENCE, WAIT),  # the other one is in doubt
        (2000, [Compared(is_away=True)], 0.0, NEW),
        (2000, [Compared(is_away=True), is_there(2000), is_there(1999)], 0.0, WAIT),
    ],
)
def test_whether_a_file_may_be_a_copy(
    size: int, originals: list[Compared], unchanged_for: float, verdict: IdentityVerdict
) -> None:
    assert undecided(size, originals, unchanged_for=unchanged_for) is verdict


@pytest.mark.parametrize(
    ("copy", "possible"),
    [
        (shown(), True),
        (shown(TEXT[:600]), True),  # smaller than what was read
        (shown(TEXT + b"more"), True),
        (shown(ANOTHER_BEGINNING), False),
        (shown(ANOTHER_TAIL), False),
    ],
)
def test_what_can_be_a_copy_of_a_source(copy: SeenFile, possible: bool) -> None:
    assert may_be_copied(known(), copy) is possible


def test_the_likeliest_original() -> None:
    originals = [("/l/app.log", 100), ("/l/app.log", 120), ("/l/app.log", 99), ("/l/z.log", 100)]
    found = sorted(set(originals), key=lambda each: distance(each[0], each[1], "/l/app.log.1", 100))
    assert found == originals


# Rules 12 to 15: copies of what is not there any more


@pytest.mark.parametrize(
    ("source", "there", "born", "verdict"),
    [
        (known(), shown(), BORN, COPY),
        (known(), shown(TEXT[:POSITION]), BORN, COPY),
        (known(), shown(TEXT[: POSITION - 1]), BORN, NEW),
        (known(), shown(ANOTHER_BEGINNING), BORN, NEW),
        (known(), shown(ANOTHER_TAIL), BORN, NEW),
        (known(), shown(), None, COPY),  # written before the original was last seen
        (known(), shown(), BORN + 1, COPY),  # another file is there
        (known(), shown(mtime_ns=9_000_000_000), None, COPY),
        (known(), shown(mtime_ns=9_000_000_001), None, NEW),
        (known(), shown(mtime_ns=9_000_000_001), BORN + 1, NEW),
        (known(), shown(mtime_ns=9_000_000_001), BORN, COPY),
        (known(TEXT[:1023], 900), shown(TEXT[:1023], 900), None, NEW),
        (known(TEXT[:1023], 900), shown(TEXT[:1023], 900), BORN, COPY),
        (known(TEXT, 500), shown(TEXT[:600], 500), BORN, COPY),  # copied before it had grown
        (known(b"", 0), shown(b"", 0), BORN, NEW),
        (known(TEXT, 500), shown(ANOTHER_BEGINNING[:600], 500), BORN, NEW),
        (known(TEXT, 0), shown(b"", 0), BORN, NEW),
        (replace(known(), tail=b""), shown(TEXT[: POSITION - 1]), BORN, NEW),
    ],
)
def test_a_source_goes_on_in_a_copy(
    source: RememberedFile, there: SeenFile, born: int | None, verdict: IdentityVerdict
) -> None:
    assert taken_over(source, there, born) is verdict


@pytest.mark.parametrize(
    ("source", "there", "verdict"),
    [
        (known(), shown(mtime_ns=99_000_000_000), COPY),
        (only_marked(known()), shown(mtime_ns=99_000_000_000), COPY),
        (known(TEXT, 0), shown(TEXT, 0), COPY),  # nothing was read
        (replace(known(), tail=b""), shown(), NEW),
        (known(), shown(ANOTHER_BEGINNING), NEW),
        (known(), shown(ANOTHER_TAIL), NEW),
        (known(), shown(TEXT[: POSITION - 1]), NEW),
        (known(TEXT[:1023], 900), shown(TEXT[:1023], 900), NEW),
    ],
)
def test_a_source_whose_file_is_gone_goes_on_in_a_younger_copy(
    source: RememberedFile, there: SeenFile, verdict: IdentityVerdict
) -> None:
    assert left_in_copy(source, there) is verdict


@pytest.mark.parametrize(
    ("source", "there", "verdict"),
    [
        (known(), shown(), COPY),
        (known(TEXT, 0), shown(TEXT, 0), COPY),
        (known(), shown(mtime_ns=7_000_000_000), NEW),  # written when it was deleted
        (known(), shown(ANOTHER_TAIL), NEW),
        (only_marked(known()), shown(), NEW),
        (known(TEXT[:1023], 900), shown(TEXT[:1023], 900), NEW),
    ],
)
def test_a_file_that_is_written_anew_by_way_of_another_name(
    source: RememberedFile, there: SeenFile, verdict: IdentityVerdict
) -> None:
    assert replaced(source, there, lost_name_ns=7_000_000_000) is verdict


@pytest.mark.parametrize(
    ("begun", "mtime", "ctime", "possible"),
    [
        (5_900_000_000, 5_000_000_000, 0, True),  # of the same second
        (5_900_000_000, 4_999_999_999, 99_000_000_000, False),
        (0, 0, 9_000_000_000, True),
        (0, 99_000_000_000, 8_999_999_999, False),
    ],
)
def test_whose_an_archive_may_be_by_its_times(
    begun: int, mtime: int, ctime: int, possible: bool
) -> None:
    assert may_be_archive(replace(known(), begun_ns=begun), mtime, ctime) is possible


def test_whose_an_archive_is_by_its_content() -> None:
    file, before = known(), TEXT[POSITION - TAIL : POSITION]
    assert archived(file, TEXT[:FULL], before) is COPY
    assert archived(file, TEXT[:FULL], b"#" + before[1:]) is NEW
    assert archived(file, ANOTHER_BEGINNING[:FULL], before) is NEW
    assert may_be_archived(file, b"#" * (FULL - 1))
    assert not may_be_archived(file, b"#" * FULL)


@pytest.mark.parametrize(
    ("born", "copied", "there", "emptied"),
    [
        (11, b"one\n", b"", True),
        (11, b"one\n", b"two\n", True),
        (11, b"one\n", b"one\ntwo\n", False),
        (10, b"one\n", b"", False),
        (11, b"", b"", False),
    ],
)
def test_what_a_copy_says_of_a_file_that_was_not_read(
    born: int, copied: bytes, there: bytes, emptied: bool
) -> None:
    assert shows_emptied(born, copied, there, 10) is emptied


# Rule 16


@pytest.mark.parametrize(("device", "verdict"), [(1, LOST), (2, WAIT), (None, WAIT)])
def test_a_source_that_is_not_found(device: int | None, verdict: IdentityVerdict) -> None:
    assert sought(known(), device) is verdict


# What holds for all files

contents = st.binary(min_size=1, max_size=200) | st.binary(min_size=1, max_size=9).map(
    lambda each: each * 300
)


@given(contents, st.binary(max_size=100), st.data())
def test_a_file_that_has_only_grown_is_the_same(
    text: bytes, more: bytes, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(text)))
    file, there = known(text, position), shown(text + more, position)
    for each in (file, only_marked(file)):
        assert reopened(each, there) is SAME
        assert doubted(each, there) is SAME
        assert taken_over(each, there, BORN) is COPY
    source = in_journal(
        fingerprint=file.fingerprint, progress=Progress(position, mark=zlib.crc32(file.tail))
    )
    assert met(source, there) is SAME
    assert kept(source, there) is SAME
    assert may_be_copied(file, there)


@given(contents, contents, st.data())
def test_a_file_with_other_bytes_where_they_are_known_is_another_one(
    text: bytes, other: bytes, data: st.DataObject
) -> None:
    """Of any content, whatever it has in common with the first one."""
    position = data.draw(st.integers(0, len(text)))
    file, there = known(text, position), shown(other, position)
    is_same = other.startswith(text[:FULL]) and there.before == file.tail
    is_same = is_same and len(other) >= len(text)
    assert (doubted(file, there) is SAME) == is_same
    assert (doubted(only_marked(file), there) is SAME) == is_same
    assert (reopened(file, there) is SAME) == other.startswith(text[:FULL])


@given(contents, contents)
def test_a_digest_says_what_the_bytes_say(text: bytes, other: bytes) -> None:
    head, first = other[:FULL], text[:FULL]
    assert begins(fingerprint(text), head) == begins(fingerprint(text), head, first)
    assert begins(fingerprint(text), head) == head.startswith(first)


@given(contents, st.integers(1, 10**10), st.integers(1, 10**10))
def test_a_file_made_at_another_time_is_another_one(text: bytes, one: int, other: int) -> None:
    file, there = replace(known(text, 0), born_ns=one), shown(text, 0, born_ns=other)
    assert (reopened(file, there) is SAME) == (one == other)
