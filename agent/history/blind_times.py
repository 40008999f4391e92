"""Times in which nobody watched: what they are, and what folders tell of them afterwards. Pure.

Whoever looks at an input's files remembers when that was and how the folders stood: a folder's own
times change with every name that comes or goes in it. So after a time in which nobody looked, a
folder is `UNCHANGED`, and it is as if somebody had been there, or it is `CHANGED`: files may have
come and gone, and nobody knows what was in them. That every file which is known was found again
does not make up for it.

A clock that ticks slower than names come and go would hide a change: what happens in the tick in
which a folder was looked at leaves its times as they are. Such a look is not `sure`, and counts as
a change, until a later one has confirmed it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from os.path import commonpath
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from agent.runs import SourceId

MOST_FOLDERS: Final = 10_000
"""Of so many folders of an input it is remembered how they stood."""

MOST_SAID: Final = 20
"""Folders of a topic that have a statement of their own; if there are more, one speaks of all."""

_MOMENT_NS: Final = 5_000_000_000
_TICK_NS: Final = 20_000_000
_COARSE_TICK_NS: Final = 2_100_000_000  # of file systems that know full seconds only
_SECOND_NS: Final = 1_000_000_000
_MOST_NAMES: Final = 5
_NO_SOURCE: Final = SourceId("")


class Traces(StrEnum):
    """What can be told afterwards. The words are the ledger's; one that only a later release knows
    is `OTHER`."""

    OTHER = "other"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    VANISHED = "vanished"
    TRUNCATED = "truncated"
    BRIEF = "brief"

    @classmethod
    def _missing_(cls, _word: object) -> "Traces":
        return cls.OTHER


class Unwatched(msgspec.Struct, frozen=True):
    """A time that an agent cannot vouch for: of a folder, or of a source from `position` on."""

    topic: str
    path: str
    source: SourceId
    position: int
    from_millis: int
    to_millis: int
    traces: Traces
    reason: str


def united(one: Unwatched, other: Unwatched) -> Unwatched:
    """One for two about the same topic, and for the time between them."""
    return Unwatched(
        other.topic,
        commonpath((one.path, other.path)),
        _NO_SOURCE,
        -1,
        min(one.from_millis, other.from_millis),
        max(one.to_millis, other.to_millis),
        Traces.BRIEF if one.traces is other.traces is Traces.BRIEF else Traces.CHANGED,
        "more such times than can wait one by one",
    )


class Stamp(NamedTuple):
    """How a folder stood; of one that was not there, how the nearest one above it did."""

    device: int
    inode: int
    mtime_ns: int
    ctime_ns: int
    is_sure: bool
    """Whether a change since then shows."""

    def shows(self, now: "Stamp") -> bool:
        """Whether nothing came or went between the two."""
        return self.is_sure and self[:4] == now[:4]


NOWHERE: Final = Stamp(0, 0, 0, 0, is_sure=False)


def is_sure(mtime_ns: int, ctime_ns: int, now_ns: int) -> bool:
    """Whether whatever happens to a folder after now gives it another time."""
    last = max(mtime_ns, ctime_ns)
    is_coarse = not mtime_ns % _SECOND_NS and not ctime_ns % _SECOND_NS
    return now_ns - last > (_COARSE_TICK_NS if is_coarse else _TICK_NS)


class Patterns(NamedTuple):
    """What an input sought. Without paths, that is not known."""

    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


NOT_KNOWN: Final = Patterns()


class Looked(msgspec.Struct, frozen=True):
    """When an input's files were all looked at the last time, and how its folders stood.

    `caught_up_millis`: whatever was there to be read then has been acknowledged. `booted_millis`
    is the time since the host was started, which goes on while its clock is set.
    """

    millis: int
    caught_up_millis: int = 0
    booted_millis: int = 0
    folders: Mapping[str, Stamp] = {}
    patterns: Patterns = NOT_KNOWN
    has_more: bool = False  # than these folders

    def if_forgotten(self) -> "Looked":
        """What it is worth if what was found at that look is not known any more."""
        return replace(self, millis=min(self.millis, self.caught_up_millis or self.millis))


class LookedAt(msgspec.Struct, frozen=True):
    """What is new about it since it was last told; `is_whole`: all there is. Patterns that are not
    known are as before."""

    input: str
    millis: int
    caught_up_millis: int
    booted_millis: int
    folders: Mapping[str, Stamp]
    gone: tuple[str, ...] = ()
    is_whole: bool = False
    patterns: Patterns = NOT_KNOWN
    has_more: bool = False

    def after(self, before: Looked | None) -> Looked:
        patterns = self.patterns
        if before is not None and not patterns.paths:
            patterns = before.patterns
        folders: Mapping[str, Stamp]
        if self.is_whole or before is None:
            folders = dict(self.folders)
        elif self.folders or self.gone:
            folders = {**before.folders, **self.folders}
            for path in self.gone:
                folders.pop(path, None)
        else:
            folders = before.folders
        times = self.millis, self.caught_up_millis, self.booted_millis
        return Looked(*times, folders, patterns, self.has_more)


class Names(msgspec.Struct, frozen=True):
    """Names in a folder that nobody knew, and names that were known and are not there."""

    new: Sequence[str] = ()
    gone: Sequence[str] = ()


class MaybeEmptied(msgspec.Struct, frozen=True):
    """Names of files of which nothing had been read, and that were written to: they may have been
    emptied in between, which leaves no trace. Those that could only within a moment are apart."""

    names: Sequence[str] = ()
    briefly: Sequence[str] = ()


_NONE: Final = MaybeEmptied()
_NOWHERE: Final[Mapping[str, MaybeEmptied]] = {}


class Blind(msgspec.Struct, frozen=True):
    """A time in which nobody looked at the files of a topic, and why."""

    topic: str
    from_millis: int
    to_millis: int
    reason: str


def blind_since(
    topic: str, looked: Looked, *, now_millis: int, booted_millis: int, reason: str
) -> Blind:
    """From the last look until now. If the clock was set back meanwhile, all times that it may have
    shown: those of the last look, of now, and of what went by between."""
    begin, end = looked.millis, now_millis + 1
    if end <= begin:
        passed = max(0, booted_millis - looked.booted_millis)
        begin, end = min(begin, now_millis - passed), max(begin + passed, now_millis) + 1
        reason += "; the clock was set back"
    return Blind(topic, begin, end, reason)


def statements(
    blind: Blind,
    before: Mapping[str, Stamp],
    now: Mapping[str, Stamp],
    *,
    unreadable: Iterable[str],
    names: Mapping[str, Names],
    written: Mapping[str, MaybeEmptied] = _NOWHERE,
    unsought: Collection[str] = (),
) -> list[Unwatched]:
    """What is to be said of the folders of an input: one statement for each, or, if they are many,
    one for all that changed and one for all that did not. `written` has those where files may have
    been emptied. `unsought` are those that no pattern leads to now. With nothing `before`, it was
    forgotten how any of them stood.
    """
    found: dict[Traces, dict[str, str]] = defaultdict(dict)
    for path in unreadable:
        found[Traces.OTHER][path] = "it cannot be read"
    for path, stamp in now.items():
        if path in found[Traces.OTHER]:
            continue
        known = before.get(path)
        is_same = known is not None and known.shows(stamp)
        emptied = written.get(path, _NONE)
        if not is_same:
            how = _how_changed(known, stamp, names.get(path, Names()))
            found[Traces.CHANGED][path] = how if before else "how it stood is not known any more"
        elif emptied.names:
            found[Traces.CHANGED][path] = may_be_emptied(emptied.names)
        elif emptied.briefly:
            found[Traces.BRIEF][path] = may_be_emptied(emptied.briefly)
        else:
            found[Traces.UNCHANGED][path] = "no name came or went"
    for path in before.keys() - now.keys() - found[Traces.OTHER].keys():
        is_unsought = path in unsought
        how = (
            "no pattern leads there any more" if is_unsought else "the folder is not there any more"
        )
        found[Traces.CHANGED][path] = how
    return [each for traces, paths in found.items() for each in _said(blind, traces, paths)]


def not_remembered(blind: Blind, folders: Iterable[str], most: int) -> Unwatched:
    """What is to be said of an input that had more than so many folders; these are known of."""
    times = blind.from_millis, blind.to_millis
    how = f"of more folders than {most} it is not remembered how they stood"
    return Unwatched(
        *(blind.topic, commonpath([*folders] or ["/"]), _NO_SOURCE, -1),
        *(*times, Traces.OTHER, f"{blind.reason}; {how}"),
    )


def _said(blind: Blind, traces: Traces, paths: Mapping[str, str]) -> list[Unwatched]:
    if len(paths) > MOST_SAID:
        some = ", ".join(sorted(paths)[:_MOST_NAMES])
        paths = {commonpath(paths): f"{len(paths)} folders below it: {some} and others"}
    return [
        Unwatched(
            blind.topic,
            path,
            _NO_SOURCE,
            -1,
            blind.from_millis,
            blind.to_millis,
            traces,
            f"{blind.reason}; {how}",
        )
        for path, how in sorted(paths.items())
    ]


def _how_changed(before: Stamp | None, now: Stamp, names: Names) -> str:
    if before is None:
        how = "the folder is new"
    elif before[:2] != now[:2]:
        how = "another folder has its place"
    elif not before.is_sure and before[:4] == now[:4]:
        how = "it had changed when it was last looked at, and may have done so again"
    elif before.mtime_ns == now.mtime_ns:
        how = "its times or rights were set"
    else:
        how = "names came or went"
    parts = [how]
    parts += [f"{word}: {some_of(each)}" for word, each in _news(names)]
    return "; ".join(parts)


def _news(names: Names) -> list[tuple[str, Sequence[str]]]:
    told = (("new", names.new), ("gone", names.gone))
    return [(word, each) for word, each in told if each]


def may_hide(written_ns: int, away_ns: int, *, is_told: bool) -> Traces:
    """What to say of a file of which nothing was read before, and that was written to for so long,
    in a time in which nobody looked for so long: it may have been emptied in place.

    Where the history of names is complete (`is_told`), that is all that can have happened to it,
    and it is said without waiting for anybody to accept it. Where there is none, only a moment is.
    """
    if written_ns <= 0:
        return Traces.UNCHANGED
    is_brief = 0 <= away_ns <= _MOMENT_NS and written_ns <= _MOMENT_NS
    return Traces.BRIEF if is_told or is_brief else Traces.CHANGED


def may_hide_since_copied(written_ns: int, away_ns: int, *, is_told: bool) -> Traces:
    """The same of a file that was copied and truncated: that comes soon after the copy."""
    return may_hide(written_ns - _TICK_NS, away_ns, is_told=is_told)


def may_be_emptied(names: Sequence[str]) -> str:
    return f"copied, or written to, and may have been emptied: {some_of(names)}"


def some_of(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(sorted(names)[:_MOST_NAMES]) + (f" and {more} others" if more > 0 else "")
