"""Files that are written, rotated in every way, and followed, against what was written.

Whatever happens, every byte is read once, or it was destroyed; and what was destroyed after it was
seen is named as lost. Of what was destroyed before anybody saw it, it is said that nobody knows:
from which byte on, or in which folder, and from when to when. What was truncated before anybody had
seen even one byte of it leaves no trace. Nothing that is said to be lost, or to lie beyond what is
known, was read.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.files.happenings import Lost
from agent.history.blind_times import Traces
from tests.agent.files.written_files import ACTIONS, TOKEN, Incarnation, World


class JudgedWorld(World):
    """What comes of it."""

    def check(self) -> None:
        read = Counter(self.tokens_read())
        written = Counter(each for one in self.all for each in one.tokens)
        there = Counter(each for one in self.names.values() for each in one.tokens)
        assert read - written == Counter()
        assert there - read == Counter()
        missing = written - read
        destroyed = [each for each in self.all if each.destroyed]
        unseen = Counter(each for one in destroyed for each in one.tokens[one.seen :])
        seen = (missing - unseen).total()
        assert seen * TOKEN <= self.followed.lost <= missing.total() * TOKEN
        if self.events:
            assert self.not_said(missing, destroyed) * TOKEN <= self.followed.lost
        self.check_nothing_lost_was_read()

    def not_said(self, missing: Counter[int], destroyed: list[Incarnation]) -> int:
        """How many tokens are missing of which nobody said that they may be."""
        said = [
            (each.from_millis, each.to_millis)
            for each in self.followed.unwatched
            if each.traces is not Traces.UNCHANGED
        ]
        covered = Counter(
            token
            for one in destroyed
            for token, when in zip(one.tokens, one.times, strict=True)
            if one.is_nobodys
            or any(since <= when + 1 and when <= until + 1 for since, until in said)
        )
        return (missing - covered).total()

    def check_nothing_lost_was_read(self) -> None:
        lost = [
            (each.followed.source, each.position, each.position + each.bytes)
            for each in self.followed.of(Lost)
        ]
        unknown = [
            (each.source, each.position, 1 << 62) for each in self.followed.unwatched if each.source
        ]
        for source, position, data in self.followed.read:
            for other, start, end in lost + unknown:
                assert source != other or position + len(data) <= start or position >= end

    def tokens_read(self) -> Iterator[int]:
        for _, position, data in self.followed.read:
            assert position % TOKEN == 0
            assert len(data) % TOKEN == 0
            for at in range(0, len(data), TOKEN):
                yield int(data[at : at + TOKEN])


@pytest.mark.not_quick("writes and rotates files for many seconds")
@pytest.mark.parametrize(("open_files", "events"), [(100, True), (2, True), (100, False)])
@settings(max_examples=settings().max_examples * 2 // 3)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), min_size=10, max_size=40
    )
)
def test_every_byte_once(open_files: int, events: bool, actions: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = JudgedWorld(Path(folder), open_files, events=events)
        try:
            for action, number in actions:
                world.do(action, number)
            world.settle()
            world.check()
        finally:
            world.close()
