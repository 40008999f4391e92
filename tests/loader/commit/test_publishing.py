"""What is committed becomes visible, and is told in the ledger; what never was committed goes."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.errors import Refused
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from ground.signatures.keys import SigningKey
from harness.processes.server_process import free_ports
from ledger.names import LEDGER_TOPIC
from ledger.proofs import Proof, digest_of
from loader.commit.commit_log import CommitLog
from loader.commit.publishing import Publication, clean, clean_creating, publish, restore_markers
from loader.errors import StoreError
from loader.ledger.entries import in_ledger
from loader.store.local import LocalStore
from loader.values.manifests import (
    Added,
    HourState,
    Manifest,
    Marker,
    PartitionState,
    RunKind,
    TopicState,
)
from loader.values.tables import Hour
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from tests.loader.commit.made_up import HOUR, NEXT_HOUR, manifest
from tests.loader.commit.stepping_store import At, SteppingStore
from tests.loader.ledger.manifests import CONFIG, passage, windows
from tests.loader.ledger.manifests import manifest as ledger_manifest

STAGING = "_penstock/t/staging"
AT = "t/dt=2026-11-20/hour=00"


def added(name: str, hour: Hour = HOUR) -> Added:
    folder = AT if hour == HOUR else "t/dt=2026-11-20/hour=01"
    staged = f"{STAGING}/run-1-x/pieces/{name}"
    return Added(staged=staged, path=f"{folder}/{name}", hour=hour, rows=1, bytes=len(name))


def stage(store: LocalStore, *adds: Added) -> None:
    for each in adds:
        store.replace(each.staged, each.path.rpartition("/")[2].encode())


def committed(store: LocalStore, **fields: object) -> Manifest:
    made = msgspec.structs.replace(manifest(1), **fields)
    CommitLog(store, "t").commit(made)
    return made


def visible(store: LocalStore) -> list[str]:
    return [entry.path for entry in store.list_recursively("t")]


def test_files_come_and_their_staging_goes(store: LocalStore) -> None:
    clean(store, "t")  # nothing is there yet
    adds = (added("a"), added("b"), added("c", NEXT_HOUR))
    stage(store, *adds)
    store.replace(f"{STAGING}/run-1-x/pieces/_SUCCESS", b"")
    made = committed(store, adds=adds)
    assert not CommitLog(store, "t").is_visible(1)
    publish(store, made)
    assert visible(store) == [f"{AT}/a", f"{AT}/b", "t/dt=2026-11-20/hour=01/c"]
    assert list(store.list(STAGING)) == []
    assert CommitLog(store, "t").is_visible(1)
    assert CommitLog(store, "t").listed().unpublished == [1]  # the ledger is still to be written


def test_nothing_is_removed_before_its_replacement_is_there(store: LocalStore) -> None:
    store.replace(f"{AT}/old", b"rows")
    made = committed(store, adds=(added("new"),), removes=(f"{AT}/old",))
    with pytest.raises(StoreError, match="the file with 1 committed rows is neither"):
        publish(store, made)
    store.replace(f"{AT}/new", b"cut off: too long")
    with pytest.raises(StoreError, match="1 committed rows"):
        publish(store, made)
    assert visible(store) == [f"{AT}/new", f"{AT}/old"]
    assert not CommitLog(store, "t").is_visible(1)
    store.delete(f"{AT}/new")
    stage(store, added("new"))
    publish(store, made)
    assert visible(store) == [f"{AT}/new"]


def test_replaced_files_can_be_kept_for_a_time(store: LocalStore, tmp_path: Path) -> None:
    store.replace(f"{AT}/old", b"rows")
    kept = "_penstock/t/replaced/run-1"
    made = committed(store, adds=(added("new"),), removes=(f"{AT}/old",), kept_in=kept)
    stage(store, added("new"))
    with pytest.raises(StoreError, match="somebody writes there"):  # before the new file's renaming
        publish(SteppingStore(store, At(1, refuse)), made)
    publish(store, made)
    assert visible(store) == [f"{AT}/new"]
    for age, left in ((29 * 86_400, [f"{kept}/{AT}/old"]), (31 * 86_400, [])):
        for path in (tmp_path / kept, *(tmp_path / kept).rglob("*")):
            os.utime(path, (path.stat().st_mtime - age,) * 2)
        clean(store, "t")
        assert [entry.path for entry in store.list_recursively(kept)] == left


def test_markers_come_and_go(store: LocalStore) -> None:
    store.replace(f"{AT}/_INCOMPLETE", b"old")
    store.replace(f"{AT}/_SUCCESS", b"old")
    made = committed(
        store,
        markers=(
            Marker(path=f"{AT}/_INCOMPLETE"),
            Marker(path=f"{AT}/_SUCCESS", content="new"),
            Marker(path="t/dt=2026-11-20/hour=01/_INCOMPLETE", content="x"),
        ),
    )
    publish(store, made)
    assert visible(store) == [f"{AT}/_SUCCESS", "t/dt=2026-11-20/hour=01/_INCOMPLETE"]
    assert store.read(f"{AT}/_SUCCESS") == b"new"


def test_the_tables_file_is_not_ahead_of_its_hours(store: LocalStore) -> None:
    table, hour = "t/_complete_hours.json", f"{AT}/_SUCCESS"
    both = (Marker(path=table, content="{}"), Marker(path=hour, content="{}"))
    made = committed(store, markers=both)
    seen = []
    step = lambda: seen.append((store.size(table), store.size(hour)))  # noqa: E731
    publish(SteppingStore(store, step), made)
    assert (None, 2) in seen
    assert (2, None) not in seen
    assert store.size(table) == 2


class Syncing(SteppingStore):
    """Notes what is synced, and what is created."""

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store, lambda: None)
        self._folder = Path(store.root.removeprefix("file://"))
        self.notes: list[str] = []

    def sync(self, paths: Iterable[str]) -> None:
        self.notes += [path for path in paths if (self._folder / path).exists()]

    def create(self, path: str, data: bytes) -> bool:
        self.notes.append(path)
        return super().create(path, data)


def test_what_a_power_loss_must_leave_is_synced_before_it_is_relied_on(store: LocalStore) -> None:
    stage(store, added("a"))
    store.replace("t/dt=2026-11-20/hour=01/old", b"rows")
    store.replace("t/dt=2026-11-20/hour=01/other", b"rows")
    syncing = Syncing(store)
    made = msgspec.structs.replace(
        manifest(1), adds=(added("a"),), removes=("t/dt=2026-11-20/hour=01/old",)
    )
    CommitLog(syncing, "t").commit(made)
    publish(syncing, made)
    assert syncing.notes == [
        f"{STAGING}/run-1-x/pieces/a",
        "_penstock/t/manifest-1.json",
        AT,
        "t/dt=2026-11-20/hour=01",
        "_penstock/t/visible-1",
    ]


def markers(store: LocalStore) -> dict[str, bytes | None]:
    return {entry.name: store.read(entry.path) for entry in store.list(AT) if entry.name[0] == "_"}


@pytest.mark.parametrize("is_new", [False, True])
def test_whoever_hangs_anywhere_leaves_the_markers_of_the_newest_run(
    tmp_path: Path, is_new: bool
) -> None:
    """At each step, others make the run visible, go on, and open the hour again."""
    number = 0
    while True:
        store = LocalStore(f"file://{tmp_path}/{number}")
        stage(store, added("a"))
        store.replace(f"{AT}/_INCOMPLETE", b"old")
        made = committed(
            store,
            adds=(added("a"),),
            markers=(
                Marker(path=f"{AT}/_SUCCESS", content="complete"),
                Marker(path=f"{AT}/_INCOMPLETE"),
            ),
        )
        step = At(number, partial(opened_again, store, made))
        publish(SteppingStore(store, step, reading=True), made, is_new=is_new)
        if not step.reached:
            break
        assert markers(store) == {"_INCOMPLETE": b"open again"}, number
        number += 1
    assert number > 10
    assert markers(store) == {"_SUCCESS": b"complete"}


def opened_again(store: LocalStore, made: Manifest) -> None:
    publish(store, made)
    markers = (
        Marker(path=f"{AT}/_SUCCESS"),
        Marker(path=f"{AT}/_INCOMPLETE", content="open again"),
    )
    later = msgspec.structs.replace(manifest(2), markers=markers)
    CommitLog(store, "t").commit(later)
    publish(store, later)


def test_markers_are_what_the_newest_run_made_them(store: LocalStore) -> None:
    """Somebody who hung has written an old one, and died."""
    stage(store, added("a"))
    hours = {HOUR: HourState(rows=1, files=(f"{AT}/a",))}
    first = Marker(path=f"{AT}/_SUCCESS", content="complete")
    made = committed(store, adds=(added("a"),), markers=(first,), hours=hours)
    opened_again(store, made)
    log = CommitLog(store, "t")
    assert restore_markers(store, log, since=1) == []
    store.replace(f"{AT}/_SUCCESS", b"complete")
    store.delete(f"{AT}/_INCOMPLETE")
    store.replace(f"{AT}/_OTHER", b"not ours")
    wrong = [f"{AT}/_INCOMPLETE", f"{AT}/_SUCCESS"]
    assert restore_markers(store, log, since=1) == wrong
    assert markers(store) == {"_INCOMPLETE": b"open again", "_OTHER": b"not ours"}
    assert restore_markers(store, log, since=2) == []


def test_a_damaged_hour_gets_no_success_until_it_is_rebuilt(store: LocalStore) -> None:
    log, success = CommitLog(store, "t"), Marker(path=f"{AT}/_SUCCESS", content="complete")
    store.replace(f"{AT}/_DAMAGED", b"{}")
    publish(store, committed(store, markers=(success,)))
    assert restore_markers(store, log, since=1) == []
    assert markers(store) == {"_DAMAGED": b"{}"}
    rebuilt = msgspec.structs.replace(manifest(2), markers=(Marker(path=f"{AT}/_DAMAGED"), success))
    log.commit(rebuilt)
    publish(store, rebuilt)
    assert markers(store) == {"_SUCCESS": b"complete"}
    store.delete(f"{AT}/_SUCCESS")
    store.replace(f"{AT}/_DAMAGED", b"again")
    assert restore_markers(store, log, since=1) == []
    assert markers(store) == {"_DAMAGED": b"again"}


def test_an_hour_that_somebody_took_away_does_not_come_back_by_its_markers(
    store: LocalStore,
) -> None:
    stage(store, added("a"))
    hours = {HOUR: HourState(rows=1, files=(f"{AT}/a",))}
    marker = Marker(path=f"{AT}/_SUCCESS", content="complete")
    publish(store, committed(store, adds=(added("a"),), markers=(marker,), hours=hours))
    store.delete(AT)
    log = CommitLog(store, "t", complete_below=0)
    assert restore_markers(store, log, since=1) == []
    log.latest()
    log.commit(manifest(2, hours=hours))
    assert CommitLog(store, "t").read(2).hours == {}
    assert restore_markers(store, log, since=1) == []
    assert visible(store) == []


def test_what_was_staged_for_runs_that_are_visible_is_removed(store: LocalStore) -> None:
    log = CommitLog(store, "t")
    for run in (1, 2):
        log.commit(manifest(run))
        log.mark_visible(run)
    log.commit(manifest(3))
    for run in (1, 2, 3, 4):
        store.replace(f"{STAGING}/run-{run}-x/pieces/a", b"")
    store.replace(f"{STAGING}/other/a", b"")
    clean(store, "t")
    left = ["other", "run-3-x", "run-4-x"]
    assert [entry.name for entry in store.list(STAGING)] == left


@pytest.mark.parametrize("before_first_run", [True, False])
def test_what_was_given_up_is_removed_after_a_day(
    store: LocalStore, tmp_path: Path, before_first_run: bool
) -> None:
    if not before_first_run:
        CommitLog(store, "t").commit(manifest(1))
    store.replace(f"{STAGING}/run-9-idle/pieces/kind=rows/a", b"")
    store.replace(f"{STAGING}/run-9-busy/pieces/kind=rows/a", b"")
    store.replace("_penstock/~creating/idle", b"")
    store.replace("_penstock/~creating/busy", b"")
    (tmp_path / STAGING / "run-9-empty").mkdir()
    busy = [
        tmp_path / STAGING / "run-9-busy/pieces/kind=rows/a",
        tmp_path / "_penstock/~creating/busy",
    ]
    now = busy[0].stat().st_mtime
    for path in tmp_path.glob("_penstock/**/*"):
        age = 0 if path in busy else 90_000
        os.utime(path, (now - age, now - age))
    clean(store, "t")
    clean_creating(store, store.prove())
    assert [entry.name for entry in store.list(STAGING)] == ["run-9-busy"]
    assert [entry.name for entry in store.list("_penstock/~creating")] == ["busy"]


def refuse() -> None:
    raise StoreError("somebody writes there")


def test_what_cannot_be_cleaned_away_hinders_nobody(store: LocalStore) -> None:
    adds = (added("a"),)
    stage(store, *adds)
    made = committed(store, adds=adds)
    # After the file's renaming and the mark, what was staged is deleted.
    publish(SteppingStore(store, At(4, refuse)), made)
    assert CommitLog(store, "t").is_visible(1)
    assert [entry.name for entry in store.list(STAGING)] == ["run-1-x"]
    store.create(f"{STAGING}/run-1-y/pieces/b", b"")
    with pytest.raises(StoreError, match="somebody writes there"):
        clean(SteppingStore(store, At(0, refuse)), "t")
    assert [entry.name for entry in store.list(STAGING)] == ["run-1-x"]
    clean(store, "t")
    assert list(store.list(STAGING)) == []


@pytest.fixture
def log(store: LocalStore) -> CommitLog:
    return CommitLog(store, "clicks")


@pytest.fixture
def nobody() -> Iterator[RegistryClient]:
    """A registry that is away: then no entry can be written."""
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with RegistryClient(url, patience_seconds=0.1) as registry:
        yield registry


@pytest.fixture
def log_and_brokers() -> Iterator[tuple[ScriptedLog, Brokers]]:
    with scripted_log() as both:
        yield both


@pytest.fixture
def scripted(log_and_brokers: tuple[ScriptedLog, Brokers]) -> Brokers:
    return log_and_brokers[1]


class Load:
    """As far as this is about."""

    def __init__(
        self,
        log: CommitLog,
        brokers: Brokers,
        registry: RegistryClient,
        key: SigningKey | None = None,
    ) -> None:
        self.key = key
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self._commit_log = log
        self.publication = Publication(
            log,
            brokers,
            registry,
            topics=[TOPIC],
            group="g",
            key=key,
            doing=self.steps.append,
            warn=self.warnings.append,
        )

    def commit(self, kind: RunKind = RunKind.LOAD) -> None:
        fingerprint = "" if self.key is None else self.key.public.fingerprint
        made = following(self._commit_log, kind, fingerprint)
        self._commit_log.commit(made)
        self.publication.publish(made)


def following(log: CommitLog, kind: RunKind = RunKind.LOAD, key: str = "") -> Manifest:
    """A run that has read ten offsets more, or closes hours."""
    before = log.latest()
    run = 1 if before is None else before.run + 1
    reached = PartitionState(partition=0, next_offset=10 * run, leader_epoch=0)
    gone = PartitionState(partition=1, next_offset=5, absent=True)
    former = PartitionState(partition=2, next_offset=5)
    topics = (
        TopicState(topic=TOPIC, cluster="dc1", topic_id="", partitions=(reached, gone)),
        TopicState(topic="no-more", cluster="dc1", topic_id="", partitions=(former,)),
    )
    read = [] if kind is RunKind.CLOSE else [passage(windows=windows(1))]
    seq = 0 if before is None else before.ledger_seq + before.ledger_entries
    made = msgspec.structs.replace(ledger_manifest(*read, run=run, kind=kind), topics=topics)
    made = msgspec.structs.replace(made, ledger_seq=seq)
    return in_ledger(made, before, CONFIG, key=key)


def test_the_ledger_is_given_up_at_its_first_refusal(
    log: CommitLog, scripted: Brokers, nobody: RegistryClient
) -> None:
    for _ in range(3):
        Load(log, scripted, nobody).commit()
    later = Load(log, scripted, nobody)
    later.publication.publish_unfinished(log.listed())
    later.commit()
    later.commit(RunKind.CLOSE)
    (warning,) = later.warnings
    assert warning.startswith("run 1 and later ones are not in the ledger yet: ")
    # Files do not wait for it, nor does a run that has nothing to say.
    assert [log.is_visible(run) for run in log.runs()] == [True] * 5
    assert log.listed().unpublished == [1, 2, 3, 4]
    assert later.publication.rolled_forward is None


def test_what_was_not_made_visible_is(
    log: CommitLog, scripted: Brokers, nobody: RegistryClient
) -> None:
    Load(log, scripted, nobody).commit()
    log.commit(following(log))
    later = Load(log, scripted, nobody)
    later.publication.publish_unfinished(log.listed())
    assert log.is_visible(2)
    assert later.publication.rolled_forward == 2


def test_brokers_are_told_how_far_the_newest_run_came(
    log: CommitLog, log_and_brokers: tuple[ScriptedLog, Brokers], nobody: RegistryClient
) -> None:
    partition, scripted = log_and_brokers
    load = Load(log, scripted, nobody)
    load.commit()
    load.commit()
    assert partition.consumed == {0: 20}  # and nothing of what is not there
    load.commit(RunKind.CLOSE)
    assert log.listed().unpublished == [1, 2]
    Load(log, scripted, nobody).publication.publish_unfinished(log.listed())
    assert partition.consumed == {0: 30}
    # Killed before they were told.
    log.commit(following(log))
    Load(log, scripted, nobody).publication.publish_unfinished(log.listed())
    assert partition.consumed == {0: 40}


def test_entries_are_proven_by_the_key_of_their_run_alone(
    log: CommitLog, brokers: Brokers, registry: RegistryClient, nobody: RegistryClient
) -> None:
    """A run from before signatures has no proofs."""
    with contextlib.suppress(Refused):  # others have made it already
        create_topic(brokers, TOPIC)
    key, other = SigningKey.new(), SigningKey.new()
    Load(log, brokers, nobody).commit()
    Load(log, brokers, nobody, key).commit()
    stranger = Load(log, brokers, registry, other)
    stranger.publication.publish_unfinished(log.listed())
    assert log.listed().unpublished == [2]
    (warning,) = stranger.warnings
    assert f"run 2 was committed with the signing key {key.public.fingerprint}" in warning
    Load(log, brokers, registry).publication.publish_unfinished(log.listed())
    assert log.listed().unpublished == [2]
    Load(log, brokers, registry, key).publication.publish_unfinished(log.listed())
    assert log.listed().unpublished == []
    told = log.read(2).ledger
    assert told is not None
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        records = [each.record for each in consumer]
    first, second = (one for one in records if told.source.encode() in (one.value or b""))
    assert not first.headers
    ((_, header),) = second.headers
    proof = Proof.decode(header or b"")
    assert proof is not None
    assert proof.holds(key.public, digest_of(second.value or b""))


def test_what_the_ledger_was_owed_comes_in_the_order_of_the_runs(
    log: CommitLog, brokers: Brokers, registry: RegistryClient, nobody: RegistryClient
) -> None:
    with contextlib.suppress(Refused):  # others have made it already
        create_topic(brokers, TOPIC)
    for _ in range(2):
        Load(log, brokers, nobody).commit()
    assert log.listed().unpublished == [1, 2]
    load = Load(log, brokers, registry)
    load.publication.publish_unfinished(log.listed())
    load.commit()
    assert (log.listed().unpublished, load.warnings) == ([], [])
    told = log.read(3).ledger
    assert told is not None
    decoder = Decoder(registry.schema, built_in(LEDGER))
    with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
        values = [each.record.value or b"" for each in consumer]
    # Others write there too, under schemas that this registry does not know.
    mine = [decoder.decode(value) for value in values if told.source.encode() in value]
    assert [(each["run"], each["header"]["seq"]) for each in mine] == [(1, 0), (2, 1), (3, 2)]
