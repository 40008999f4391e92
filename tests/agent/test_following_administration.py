"""An agent follows an administration log through its rotations, and loses nothing."""

from pathlib import Path

from ground.administration import Change, Kind, Program, Who, read_entry
from ground.administration_log import AdministrationLog, AdministrationLogConfig
from harness.waiting import wait_until
from tests.agent.pipeline_side import PipelineSide, input_of, pipeline_side

_ENTRIES = 300


def shipped(side: PipelineSide) -> list[str]:
    return [read_entry(line).name for line in side.messages("administration")]


def test_rotations_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "administration.log"
    config = AdministrationLogConfig(file_bytes=3_000, kept_files=200)
    log = AdministrationLog(path, config, Program("dc1", "broker 1"))
    who = Who("alice", "10.0.0.7")
    with (
        pipeline_side(tmp_path, input_of(folder / "administration.log*", "administration")) as side,
        side.running(),
    ):
        for number in range(_ENTRIES):
            log.note(who, Change(action="create", kind=Kind.TOPIC, name=f"t{number}"))
            if number % 100 == 99:
                assert log.flush(30)
                wait_until(
                    lambda: bool(shipped(side)), within=60, what="something is read", every=0.2
                )
        log.close()
        wait_until(lambda: len(shipped(side)) >= _ENTRIES, within=60, what="all", every=0.2)
        found = shipped(side)
    assert len(list(folder.iterdir())) > 20
    assert sorted(found) == sorted(f"t{number}" for number in range(_ENTRIES))
