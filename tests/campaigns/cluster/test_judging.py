"""The judge of histories: right ones pass, and each rule objects to one that breaks it."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.campaigns.cluster import judging
from tests.campaigns.cluster.campaign import BROKERS, CAMPAIGNS, HISTORY, TOPIC
from tests.campaigns.cluster.events import (
    Acknowledged,
    Began,
    Event,
    Failed,
    Mapped,
    Read,
    Refused,
    Sent,
    Stands,
)
from tests.campaigns.cluster.judging import Case, judge
from tests.campaigns.history import Done, History, Trouble
from tests.campaigns.logs import Batch, Replica
from tests.campaigns.outcomes import SCRIPT
from tests.system.crash import value_of
from tests.system.raw import record_batch

ALL = -1


class Story(msgspec.Struct, frozen=True):
    """A run of two records of an idempotent writer `i`, two of `a` (all) and one of `o` (acks=1),
    on brokers 1 and 2, in epochs 0 and 1; all is well."""

    events: tuple[Event, ...]
    log: Mapping[int, str]
    replicas: Mapping[int, tuple[Batch, ...]]
    consumed: Mapping[int, Mapping[int, str]] = {}
    in_sync: int = 2

    def case(self) -> Case:
        replicas = [Replica(broker, batches) for broker, batches in self.replicas.items()]
        return Case(
            History(self.events), self.consumed or {0: self.log}, {0: replicas}, self.in_sync
        )

    def rules(self) -> set[str]:
        return {each.rule for each in judge(self.case())}

    def with_events(self, *more: Event) -> "Story":
        return replace(self, events=(*self.events, *more))

    def with_log(self, contents: Sequence[str]) -> "Story":
        """Both replicas have it, in the epochs there were."""
        log = dict(enumerate(contents))
        batches = tuple(
            batch(offset, content, epoch=0 if offset < 3 else 1) for offset, content in log.items()
        )
        return replace(self, log=log, replicas=dict.fromkeys(self.replicas, batches))

    def with_replica(self, broker: int, batches: Sequence[Batch]) -> "Story":
        return replace(self, replicas={**self.replicas, broker: tuple(batches)})


def batch(offset: int, content: str, *, epoch: int) -> Batch:
    data = f"{offset} {content} {epoch}".encode()
    return Batch(offset, offset, data, epoch, contents=(content,))


CONTENTS = ("i 0", "a 0", "o 0", "i 1", "a 1")


def well() -> Story:
    events: list[Event] = [
        Began("i", 0, ALL, idempotent=True),
        Began("a", 0, ALL, idempotent=False),
        Began("o", 0, 1, idempotent=False),
        Mapped(0, 1, 0, (1, 2), 0),
    ]
    for offset, content in enumerate(CONTENTS):
        writer, number = content.split()
        broker = 0 if writer == "i" else 1 if offset < 3 else 2
        events += [
            Sent(writer, int(number)),
            Acknowledged(writer, int(number), offset, broker),
            Read("r", 0, offset, content),
        ]
        if offset == 2:
            events += [Mapped(0, -1, 0, (1, 2), 1), Mapped(0, 2, 1, (2,), 2)]
    return Story(tuple(events), {}, {1: (), 2: ()}).with_log(CONTENTS)


def without(story: Story, content: str) -> Story:
    return story.with_log([each for each in CONTENTS if each != content])


def test_all_is_well() -> None:
    assert judge(well().case()) == []


WRONG: dict[str, Callable[[Story], Story]] = {
    "lost": lambda story: without(story, "a 1"),
    "moved": lambda story: story.with_events(Sent("a", 2), Acknowledged("a", 2, 1, 1)).with_log(
        [*CONTENTS, "a 2"]
    ),
    "reordered": lambda story: story.with_log(["i 1", *CONTENTS[1:3], "i 0", "a 1"]),
    "doubled": lambda story: story.with_log([*CONTENTS, "i 1"]),
    "gone": lambda story: story.with_events(Read("s", 0, 5, "o 1")),
    "changed": lambda story: story.with_log([*CONTENTS[:2], "o 1", *CONTENTS[3:]]),
    "disagree": lambda story: story.with_events(Read("s", 0, 0, "a 0")),
    "skipped": lambda story: story.with_events(Read("s", 0, 1, "a 0")),
    "refused": lambda story: story.with_events(Refused("r", 0, "out of range")),
    "invented": lambda story: story.with_log([*CONTENTS, "a 7"]),
    "hole": lambda story: replace(
        story, consumed={0: {**story.log, 6: "a 2"}}, events=(*story.events, Sent("a", 2))
    ),
    "replicas": lambda story: story.with_replica(
        2, [*story.replicas[2][:4], batch(4, "a 1", epoch=2)]
    ),
    "served": lambda story: story.with_replica(
        2, [*story.replicas[2][:4], batch(4, "a 0", epoch=1)]
    ),
    "few": lambda story: acknowledged_amid(story, "kill 1"),
    "leaders": lambda story: story.with_events(Mapped(0, 1, 1, (1, 2), 3)),
    "epochs": lambda story: story.with_events(Mapped(0, 2, 0, (2,), 3)),
    "stuck": lambda story: story.with_events(Failed("i", 2, "no answer")),
    "trouble": lambda story: story.with_events(Trouble("trouble: broker 1 ended by itself")),
}


def acknowledged_amid(story: Story, *actions: str) -> Story:
    """One action a second, a record sent and acknowledged, and more actions."""
    done = [Done(action, at) for at, action in enumerate(actions, 1)]
    record: list[Event] = [Sent("a", 2, 10.0), Acknowledged("a", 2, 5, 2, 20.0)]
    return (
        story.with_events(*done, *record, Done("pause 1", 30.0))
        .with_events(Done("everything is brought back", 31.0))
        .with_log([*CONTENTS, "a 2"])
    )


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_objects(rule: str) -> None:
    assert rule in WRONG[rule](well()).rules()


def test_every_rule_is_tried() -> None:
    documented = re.findall(r"^    (\w+)", judging.__doc__ or "", re.MULTILINE)
    assert set(documented) == set(WRONG)


def test_a_deposed_leader_that_acknowledges_is_found() -> None:
    """The map never named it in this epoch; its answer, and the log, do."""
    deposed = Acknowledged("a", 1, 4, 1)
    assert well().with_events(deposed).rules() == {"leaders"}


@pytest.mark.parametrize(
    "actions",
    [
        ("stop 1", "start 2"),
        ("freeze 1", "start-everywhere", "kill 1"),
        ("freeze 1", "wipe 1", "thaw 1"),
        ("lose-power 1", "pause 2"),
    ],
)
def test_who_is_away_has_nothing(actions: tuple[str, ...]) -> None:
    assert acknowledged_amid(well(), *actions).rules() >= {"few"}
    alone = replace(acknowledged_amid(well(), *actions), in_sync=1)
    assert alone.rules() == set()


def test_epochs_within_a_log_only_grow() -> None:
    batches = [batch(at, each, epoch=1 - at // 3) for at, each in enumerate(CONTENTS)]
    story = well().with_replica(1, batches).with_replica(2, batches)
    assert "epochs" in story.rules()


def test_what_was_acknowledged_before_it_was_sent_lies_below() -> None:
    """Whoever sent it; and what a client sends again in another order is its own affair."""
    swapped = ["i 0", "a 1", "o 0", "i 1", "a 0"]
    assert "reordered" in well().with_log(swapped).rules()
    both: list[Event] = [
        Sent("a", 2),
        Sent("a", 3),
        Acknowledged("a", 3, 5, 2),
        Acknowledged("a", 2, 6, 2),
    ]
    assert well().with_events(*both).with_log([*CONTENTS, "a 3", "a 2"]).rules() == set()


def test_a_replica_with_a_hole_is_found() -> None:
    story = well()
    assert "hole" in story.with_replica(2, [*story.replicas[2][:2], *story.replicas[2][3:]]).rules()


def test_what_was_sent_to_another_partition_was_invented() -> None:
    story = well()
    consumed = {0: story.log, 1: {0: "a 0"}}
    assert "invented" in replace(story, consumed=consumed).rules()


def test_a_partition_that_could_not_be_read_has_lost_all() -> None:
    assert "lost" in replace(well(), consumed={1: {}}).rules()


def test_a_run_that_was_kept_is_judged_again(tmp_path: Path) -> None:
    """From its history and its replicas' directories alone."""
    made = record_batch([value_of("i", 0), value_of("i", 1)])
    for broker in (1, 2):
        directory = tmp_path / BROKERS / f"broker-{broker}" / "data" / f"{TOPIC}-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(made)
    history = History()
    history.note(Began("i", 0, ALL, idempotent=True))
    for number in (0, 1):
        history.note(Sent("i", number))
        history.note(Acknowledged("i", number, number, 0))
        history.note(Stands(0, number, f"i {number}"))
    history.save(tmp_path / HISTORY)
    (tmp_path / SCRIPT).write_text("cluster in-sync=2\n")
    assert CAMPAIGNS["cluster"].judge_again(tmp_path) == []
    (directory / f"{0:020}.log").write_bytes(made[:-1])
    assert {each.rule for each in CAMPAIGNS["cluster"].judge_again(tmp_path)} == {
        "replicas",
        "served",
    }
