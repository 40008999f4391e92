"""Decides what can be known about periods in which an input's folders were not watched. Pure.

A scan remembers its time and the stamps of the folders: a folder's own times change with every name
that comes or goes in it. So after an unwatched time a folder is `UNCHANGED`, which is as good as
having watched it, or `CHANGED`: files with unknown content may have come and gone, even if every
known file was found again.

A coarse file system clock could hide a change: one within the same tick as the scan does not alter
the folder's times. Such a stamp is not `sure`, and counts as a change until a later scan has
confirmed it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from os.path import commonpath
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from agent.accounting.runs import SourceId
from agent.history.clock_setting import ClockSetting, set_words

MOST_FOLDERS: Final = 10_000
"""The number of folders of an input whose stamps are remembered."""

MOST_SAID: Final = 20
"""The number of folders with a statement each; if there are more, one statement covers all."""

_MOMENT_NS: Final = 5_000_000_000
_TICK_NS: Final = 20_000_000
_COARSE_TICK_NS: Final = 2_100_000_000  # of file systems that know full seconds only
_MILLI_NS: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000
_SERVERS_NS: Final = 60_000_000_000  # the clock of a file server may be ahead
_MOST_NAMES: Final = 5
_NOT_KNOWN: Final = "whether another file was written and removed meanwhile is unknown"
_NO_SOURCE: Final = SourceId("")


class Traces(StrEnum):
    """The traces of changes in a folder, as the ledger names them. Unknown names are read as
    `OTHER`."""

    OTHER = "other"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    VANISHED = "vanished"
    TRUNCATED = "truncated"
    BRIEF = "brief"
    OVERWRITTEN = "overwritten"

    @classmethod
    def _missing_(cls, _word: object) -> "Traces":
        return cls.OTHER


class Unwatched(msgspec.Struct, frozen=True):
    """A statement that nothing is known about a folder in some period, or about a source from
    `position` on."""

    topic: str
    path: str
    source: SourceId
    position: int
    from_millis: int
    to_millis: int
    traces: Traces
    reason: str


def united(first: Unwatched, other: Unwatched) -> Unwatched:
    """Merges two statements about a topic into one, which also covers the period between them."""
    return Unwatched(
        other.topic,
        commonpath((first.path, other.path)),
        _NO_SOURCE,
        -1,
        min(first.from_millis, other.from_millis),
        max(first.to_millis, other.to_millis),
        Traces.BRIEF if first.traces is other.traces is Traces.BRIEF else Traces.CHANGED,
        "merged: too many unwatched times wait to be published",
    )


class Stamp(NamedTuple):
    """The identity and times of a folder, or of the nearest existing one above it."""

    device: int
    inode: int
    mtime_ns: int
    ctime_ns: int
    is_sure: bool
    """Whether every later change alters the times."""

    def shows(self, now: "Stamp") -> bool:
        """Whether no name came or went between the two stamps."""
        return self.is_sure and self[:4] == now[:4]


NOWHERE: Final = Stamp(0, 0, 0, 0, is_sure=False)


def is_sure(mtime_ns: int, ctime_ns: int, now_ns: int) -> bool:
    """Whether the folder's last change is old enough that any later change is certain to alter its
    times."""
    last = max(mtime_ns, ctime_ns)
    is_coarse = not mtime_ns % _SECOND_NS and not ctime_ns % _SECOND_NS
    return now_ns - last > (_COARSE_TICK_NS if is_coarse else _TICK_NS)


class Patterns(NamedTuple):
    """The patterns of an input; unknown if there are no paths."""

    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


NOT_KNOWN: Final = Patterns()


class Looked(msgspec.Struct, frozen=True):
    """The time of an input's last scan, and the stamps of its folders.

    Everything that could be read at `caught_up_millis` has been acknowledged. `booted_millis` is
    the time since the boot, which does not depend on the clock's settings; `clock` is its setting.
    """

    millis: int
    caught_up_millis: int = 0
    booted_millis: int = 0
    folders: Mapping[str, Stamp] = {}
    patterns: Patterns = NOT_KNOWN
    has_more: bool = False  # more folders than these
    clock: ClockSetting = ClockSetting()

    def if_forgotten(self) -> "Looked":
        """The last scan that still counts if the journal has lost the results of later ones."""
        return replace(self, millis=min(self.millis, self.caught_up_millis or self.millis))


class LookedAt(msgspec.Struct, frozen=True):
    """The changes of a `Looked` since it was last journalled, or its complete state if `is_whole`.
    If the patterns are unknown, the previous ones still apply."""

    input: str
    millis: int
    caught_up_millis: int
    booted_millis: int
    folders: Mapping[str, Stamp]
    gone: tuple[str, ...] = ()
    is_whole: bool = False
    patterns: Patterns = NOT_KNOWN
    has_more: bool = False
    clock: ClockSetting = ClockSetting()

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
        return Looked(*times, folders, patterns, self.has_more, self.clock)


class Names(msgspec.Struct, frozen=True):
    """What happened to a folder's names: known files that were renamed ("old to new"), new files,
    known files that are gone, and new files that no input reads."""

    renamed: Sequence[str] = ()
    new: Sequence[str] = ()
    gone: Sequence[str] = ()
    unread: Sequence[str] = ()


class MaybeEmptied(msgspec.Struct, frozen=True):
    """Names of files that were written to before anything of them was read: they may have been
    emptied in between, which leaves no trace. `briefly` are those that could have been emptied only
    within a moment."""

    names: Sequence[str] = ()
    briefly: Sequence[str] = ()


_NONE: Final = MaybeEmptied()
_NOWHERE: Final[Mapping[str, MaybeEmptied]] = {}


class Period(NamedTuple):
    """Times of the wall clock, from the first up to the second."""

    from_millis: int
    to_millis: int

    def has(self, time_ns: int) -> bool:
        """Whether a file may have this time if it was made or changed in the period."""
        begin_ns, end_ns = self.from_millis * _MILLI_NS, self.to_millis * _MILLI_NS
        return begin_ns - _TICK_NS <= time_ns <= end_ns + _SERVERS_NS


def periods(since_millis: int, now_millis: int, set_millis: int = 0) -> tuple[Period, ...]:
    """What the clock has shown since then, the latest period last. If it was set by much
    (`set_millis`) meanwhile, these are two: as long as the time was, by the earlier setting and by
    this one."""
    passed_millis = max(0, now_millis - set_millis - since_millis)
    earlier = Period(since_millis, since_millis + passed_millis + 1)
    present = Period(now_millis - passed_millis, now_millis + 1)
    if set_words(set_millis):
        return earlier, present
    begins, ends = zip(earlier, present, strict=True)
    return (Period(min(begins), max(ends)),)


class Blind(msgspec.Struct, frozen=True):
    """A time in which the files of a topic were not watched, and the reason: one period, or several
    if the clock was set meanwhile (see `periods`)."""

    topic: str
    periods: Sequence[Period]
    reason: str

    def has(self, time_ns: int) -> bool:
        return any(period.has(time_ns) for period in self.periods)


def blind_since(
    topic: str,
    looked: Looked,
    *,
    now_millis: int,
    booted_millis: int,
    clock: ClockSetting,
    reason: str,
) -> Blind:
    """The time from the last look until now. If the host was booted meanwhile and its clock was set
    back, it covers all times that the clock may have shown in between."""
    set_millis = clock.set_since(looked.clock)
    if set_millis is not None:
        reason = "; ".join(filter(None, (reason, set_words(set_millis))))
        return Blind(topic, periods(looked.millis, now_millis, set_millis), reason)
    begin, end = looked.millis, now_millis + 1
    if end <= begin:
        passed_millis = max(0, booted_millis - looked.booted_millis)
        begin, end = (
            min(begin, now_millis - passed_millis),
            max(begin + passed_millis, now_millis) + 1,
        )
        reason += "; the clock was set back"
    return Blind(topic, (Period(begin, end),), reason)


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
    """The statements about an input's folders for a blind time: one for each, or, if there are
    many, one for all changed and one for all unchanged folders. `written`: the files that may have
    been emptied, by folder. `unsought`: folders that no pattern matches any more. An empty `before`
    means that all earlier stamps were lost."""
    reasons: dict[Traces, dict[str, str]] = defaultdict(dict)
    for path in unreadable:
        reasons[Traces.OTHER][path] = "the folder cannot be read"
    for path, stamp in now.items():
        if path in reasons[Traces.OTHER]:
            continue
        previous_stamp = before.get(path)
        is_same = previous_stamp is not None and previous_stamp.shows(stamp)
        maybe_emptied = written.get(path, _NONE)
        if not is_same:
            description = _how_changed(previous_stamp, stamp, names.get(path, Names()))
            reasons[Traces.CHANGED][path] = (
                description if before else "its previous state is unknown"
            )
        elif maybe_emptied.names:
            reasons[Traces.CHANGED][path] = may_be_emptied(maybe_emptied.names)
        elif maybe_emptied.briefly:
            reasons[Traces.BRIEF][path] = may_be_emptied(maybe_emptied.briefly)
        else:
            reasons[Traces.UNCHANGED][path] = "no name came or went"
    for path in before.keys() - now.keys() - reasons[Traces.OTHER].keys():
        is_unsought = path in unsought
        description = "no pattern leads there any more" if is_unsought else "the folder is gone"
        reasons[Traces.CHANGED][path] = description
    return [
        unwatched
        for traces, paths in reasons.items()
        for unwatched in _statements_of(blind, traces, paths)
    ]


def not_remembered(blind: Blind, folders: Iterable[str], most: int) -> list[Unwatched]:
    """States that an input has more than `most` folders, so that the agent remembered only
    `folders`."""
    path = commonpath([*folders] or ["/"])
    limit_note = f"the state of no more than {most} folders is remembered"
    return _statements_of(blind, Traces.OTHER, {path: limit_note})


def _statements_of(blind: Blind, traces: Traces, paths: Mapping[str, str]) -> list[Unwatched]:
    if len(paths) > MOST_SAID:
        first_paths = ", ".join(sorted(paths)[:_MOST_NAMES])
        paths = {commonpath(paths): f"{len(paths)} folders below it: {first_paths} and others"}
    return [
        Unwatched(
            blind.topic,
            path,
            _NO_SOURCE,
            -1,
            *period,
            traces,
            f"{blind.reason}; {description}",
        )
        for path, description in sorted(paths.items())
        for period in blind.periods
    ]


def _how_changed(before: Stamp | None, now: Stamp, names: Names) -> str:
    if before is None:
        description = "the folder is new"
    elif before[:2] != now[:2]:
        description = "the folder was replaced"
    elif not before.is_sure and before[:4] == now[:4]:
        description = "the folder changed just before the last look, and may have changed after it"
    elif before.mtime_ns == now.mtime_ns:
        description = "its times or permissions were set"
    else:
        description = ""
    changes = [f"{word}: {some_of(names_of_kind)}" for word, names_of_kind in _news(names)]
    return "; ".join([*filter(None, [description]), *changes, _NOT_KNOWN])


def _news(names: Names) -> list[tuple[str, Sequence[str]]]:
    changes = (
        ("renamed", names.renamed),
        ("new", names.new),
        ("gone", names.gone),
        ("new under no pattern", names.unread),
    )
    return [(word, changed_names) for word, changed_names in changes if changed_names]


def may_hide(written_ns: int, away_ns: int, *, is_told: bool) -> Traces:
    """Whether an unread file that was written to during an unwatched time may have been emptied in
    place. `written_ns` and `away_ns` are the lengths of writing and of the unwatched time.

    If the history of names is complete (`is_told`), nothing else can have happened to the file, so
    the verdict is `BRIEF`, which needs no acceptance. Otherwise only a moment is `BRIEF`.
    """
    if written_ns <= 0:
        return Traces.UNCHANGED
    is_brief = 0 <= away_ns <= _MOMENT_NS and written_ns <= _MOMENT_NS
    return Traces.BRIEF if is_told or is_brief else Traces.CHANGED


def may_hide_since_copied(written_ns: int, away_ns: int, *, is_told: bool) -> Traces:
    """Like `may_hide`, for a file that was copied and truncated soon afterwards."""
    return may_hide(written_ns - _TICK_NS, away_ns, is_told=is_told)


def may_be_emptied(names: Sequence[str]) -> str:
    return f"copied or written to, may have been emptied: {some_of(names)}"


def some_of(names: Sequence[str]) -> str:
    """The first names, and the number of others."""
    more_count = len(names) - _MOST_NAMES
    return ", ".join(sorted(names)[:_MOST_NAMES]) + (
        f" and {more_count} others" if more_count > 0 else ""
    )
