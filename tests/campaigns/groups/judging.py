"""What is wrong with a history of groups, by rules on values. Pure.

    unread       a group has not read a record that was written
    changed      what was read at an offset is not what was written there
    shared       two members own a partition in one generation
    generations  a later state of a group has an earlier generation, or the same with other members
    old          a commit of a generation that was over is acknowledged
    stranger     a commit is acknowledged of who was never told to be in that generation
    lost         what is committed is what no commit has left there: so an acknowledged one is gone
    claims       two members of the paper's kind read a partition at the same time
    stuck        brought back, a group did not come to rest
    trouble      a broker ended or said it has a bug, a member was told what does not pass by itself

A generation counts from when one of its members was told what it owns: before that it may be lost
with its coordinator, and its number be given again.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf
from typing import Final

import msgspec

from tests.campaigns.groups.events import (
    UNKNOWN,
    Changed,
    Committed,
    Committing,
    Ended,
    Fetched,
    Read,
    Saved,
    Synced,
)
from tests.campaigns.groups.requests import REFUSED
from tests.campaigns.groups.script import PAPER
from tests.campaigns.history import History
from tests.campaigns.outcomes import Objection, troubles


class Commit(msgspec.Struct, frozen=True):
    said: Committing
    code: int
    answered: float  # never, if it is not known what came of it

    @property
    def is_acknowledged(self) -> bool:
        return self.code == 0

    def __str__(self) -> str:
        said = self.said
        generation = "" if said.generation == UNKNOWN else f" of generation {said.generation}"
        end = f", answered at {self.answered:.3f}" if self.answered < inf else ", not answered"
        return f"commit {said.number} of {said.member}{generation}, sent at {said.at:.3f}{end}"


@dataclass(slots=True)
class Case:
    """All there is to judge by; indexes over it are made once."""

    history: History
    groups: Sequence[str]
    commits: dict[str, list[Commit]] = field(init=False)
    """By group, as they were sent."""
    synced: dict[str, list[Synced]] = field(init=False)

    def __post_init__(self) -> None:
        answers = {(each.member, each.number): each for each in self.history.of(Committed)}
        self.commits, self.synced = defaultdict(list), defaultdict(list)
        for said in self.history.of(Committing):
            answer = answers.get((said.member, said.number))
            known = answer is not None and answer.code != UNKNOWN
            code = answer.code if answer is not None else UNKNOWN
            end = answer.at if answer is not None and known else inf
            self.commits[said.group].append(Commit(said, code, end))
        for each in self.history.of(Synced):
            self.synced[each.group].append(each)


def judge(case: Case) -> list[Objection]:
    """Everything that is wrong, in the order of the rules."""
    return [objection for rule in RULES for objection in rule(case)]


def unread(case: Case) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """What is not read, from where to where, by group and partition."""
    ends = {each.partition: each.end for each in case.history.of(Ended)}
    read: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for each in case.history.of(Read):
        read[each.group, each.partition].append((each.first, each.last + 1))
    missing: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for group in case.groups:
        for partition, end in ends.items():
            at, gaps = 0, []
            for first, behind in [*sorted(read[group, partition]), (end, end)]:
                if first > at:
                    gaps.append((at, first))
                at = max(at, behind)
            if gaps:
                missing[group, partition] = gaps
    return missing


def _unread(case: Case) -> Iterator[Objection]:
    for (group, partition), gaps in unread(case).items():
        first, behind = gaps[0]
        count = sum(end - begin for begin, end in gaps)
        words = f"{group} has not read {count} records, from offset {first} to {behind - 1}"
        yield Objection("unread", f"{words} and others" if gaps[1:] else words, partition)


def _changed(case: Case) -> Iterator[Objection]:
    for each in case.history.of(Changed):
        words = f"{each.member} read {each.content} at offset {each.offset}, at {each.at:.3f}"
        yield Objection("changed", words, each.partition)


def _shared(case: Case) -> Iterator[Objection]:
    owners: dict[tuple[str, int, int], dict[str, str]] = defaultdict(dict)
    for told in case.history.of(Synced):
        for each in told.partitions:
            saw = f"{told.member} was told so at {told.at:.3f}"
            owners[told.group, told.generation, each].setdefault(told.member_id, saw)
    for saved in case.history.of(Saved):
        for member_id, partitions in saved.owners.items():
            for each in partitions:
                saw = f"{member_id} by what was saved at {saved.at:.3f}"
                owners[saved.group, saved.generation, each].setdefault(member_id, saw)
    for (group, generation, partition), members in owners.items():
        if len(members) > 1:
            words = f"in generation {generation} of {group} it is owned by several: "
            yield Objection("shared", words + "; ".join(members.values()), partition)


def _generations(case: Case) -> Iterator[Objection]:
    last: dict[str, Saved] = {}
    for each in case.history.of(Saved):
        before = last.get(each.group)
        if before is not None and each.generation < before.generation:
            words = f"{each.group} was in generation {before.generation} at {before.at:.3f}"
            yield Objection("generations", f"{words}, and in {each.generation} at {each.at:.3f}")
        elif before is not None and each.generation == before.generation:
            words = f"generation {each.generation} of {each.group}, as at {before.at:.3f}"
            yield Objection("generations", f"{words}, has other members at {each.at:.3f}")
        last[each.group] = each


def _old(case: Case) -> Iterator[Objection]:
    for group, commits in case.commits.items():
        told = case.synced[group]
        times = [each.at for each in told]
        latest = list(accumulate((each.generation for each in told), max))
        for each in commits:
            before = bisect_left(times, each.said.at)
            if not each.is_acknowledged or each.said.generation < 0 or not before:
                continue
            if latest[before - 1] > each.said.generation:
                words = f"{group}: {each} is acknowledged, though generation {latest[before - 1]}"
                yield Objection("old", f"{words} had been answered before it was sent")


def _stranger(case: Case) -> Iterator[Objection]:
    for group, commits in case.commits.items():
        known = {(each.member_id, each.generation) for each in case.synced[group]}
        for each in commits:
            who = each.said.member_id, each.said.generation
            if each.is_acknowledged and each.said.generation >= 0 and who not in known:
                words = f"{group}: {each} as {who[0]!r} is acknowledged"
                yield Objection("stranger", f"{words}: that member was not in that generation")


def _lost(case: Case) -> Iterator[Objection]:
    """What was fetched must be what one of these commits has left: sent before the answer, not
    refused, and not overwritten for sure before it was asked."""
    by_partition: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    for group, commits in case.commits.items():
        for each in commits:
            for partition in each.said.offsets:
                by_partition[group, partition].append(each)
    for fetched in case.history.of(Fetched):
        for partition, offset in fetched.offsets.items():
            commits = by_partition[fetched.group, partition]
            done = [
                each for each in commits if each.is_acknowledged and each.answered < fetched.asked
            ]
            possible = {
                each.said.offsets[partition]
                for each in commits
                if each.said.at < fetched.at and each.code not in REFUSED and not _over(each, done)
            }
            if not done:  # where nothing was committed it begins
                possible |= {-1, 0}
            if offset not in possible:
                yield _missing(fetched, partition, offset, done)


def _over(commit: Commit, done: Sequence[Commit]) -> bool:
    """Whether one of these was written after it for sure: it was sent when this one was answered;
    or it is of a later generation, in which nothing of this one's can be written any more."""
    return any(
        commit.answered < each.said.at or -1 < commit.said.generation < each.said.generation
        for each in done
    )


def _missing(fetched: Fetched, partition: int, offset: int, done: Sequence[Commit]) -> Objection:
    found = f"{fetched.member} was told at {fetched.at:.3f} that {offset} is committed"
    if not done:
        return Objection("lost", f"{fetched.group}: {found}, which nobody did", partition)
    last = max(done, key=lambda each: each.answered)
    words = f"{found}; {last} left {last.said.offsets[partition]} there"
    return Objection("lost", f"{fetched.group}: {words}", partition)


def _claims(case: Case) -> Iterator[Objection]:
    """From when the first record of a claim was there until the last one was asked for, it was
    relied on for sure."""
    relied: dict[tuple[int, str, int], list[float]] = {}
    for each in case.history.of(Read):
        if each.group == PAPER:
            known = relied.setdefault((each.partition, each.member, each.claim), [inf, -inf])
            known[0], known[1] = min(known[0], each.had), max(known[1], each.asked)
    by_partition: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for (partition, member, _), (since, until) in relied.items():
        if since < until:
            by_partition[partition].append((since, until, member))
    for partition, intervals in by_partition.items():
        for (since, until, one), (begins, _, other) in pairwise(sorted(intervals)):
            if begins < until:
                words = f"{one} read from {since:.3f} to {until:.3f}, {other} from {begins:.3f} on"
                yield Objection("claims", words, partition)


RULES: Final[tuple[Callable[[Case], Iterator[Objection]], ...]] = (
    _unread,
    _changed,
    _shared,
    _generations,
    _old,
    _stranger,
    _lost,
    _claims,
    lambda case: troubles(case.history),
)
