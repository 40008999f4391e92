"""A file was copied and deleted while nobody looked, and no pattern means the copy's name."""

from pathlib import Path

from agent.configuration.file_inputs import FileInput
from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import (
    JournalledFiles,
    LogFolder,
    of_folders,
    of_sources,
    settle,
)
from tests.agent.files.scenarios import Scenario, Steps, check, scenarios, words

# 1,400 bytes were read before the agent died; 700 more followed.
READ = "write app.log 0..200; rest; stop; write app.log 200..300; tick; "
NAMES, COPIED = "changed .: no agent *", "changed .: app.log vanished*app.log.1 has it*"
UNKNOWN = "vanished app.log from 1400: *"


@scenarios(
    *(
        Scenario(
            f"it goes on in the copy ({copy}), what it got after that nobody knows",
            f"{READ}{copy} app.log app.log.1; truncate app.log; write app.log unseen; rm app.log; "
            "write app.log new; start; settle; rest; stop; start; settle",
            "0..300 new",
            (NAMES, "changed .: app.log vanished*app.log.1 has it up to byte 2100*", "unchanged *"),
            counts={"sources": 2, "ended": 1},
        )
        for copy in ("cp", "cp2")
    ),
    Scenario(
        "a copy that has nothing more",
        "write app.log 0..200; rest; stop; tick; cp app.log app.log.1; rm app.log; start; settle",
        "0..200",
        (NAMES, COPIED),
    ),
    Scenario(
        "what another source has read is not taken: the same report twice",
        "write app.log 0..300; rest; mv app.log app.log.1; settle; write app.log 0..200; rest; "
        "rest; stop; rm app.log; touch app.log.1; start; settle",
        "0..300 0..200",
        (NAMES, UNKNOWN),
    ),
    Scenario(
        "an archive of the file goes before a copy: its end was seen",
        f"{READ}cp app.log app.log.bak; write app.log 300..400; gzip app.log app.log.1.gz; "
        "rm app.log; start; settle",
        "0..400",
        (NAMES,),
    ),
    Scenario(
        "a copy that was compressed",
        f"{READ}gzip app.log app.log.1.gz; rm app.log; start; settle",
        "0..300",
        (NAMES,),
    ),
    Scenario(
        "a copy that was rotated: the newest one is of what the file had after that",
        f"{READ}cp app.log app.log.2; tick; write app.log.1 300..900; rm app.log; start; settle",
        "0..300",
        (NAMES, "changed .: app.log vanished*app.log.2 has it*"),
    ),
    Scenario(
        "of several copies the last one is taken",
        f"{READ}cp app.log app.log.3; write app.log 300..400; tick; cp app.log app.log.2; "
        "write app.log 400..500; tick; cp app.log app.log.1; write app.log unseen; tick; "
        "rm app.log; start; settle",
        "0..500",
        (NAMES, COPIED),
    ),
    Scenario(
        "of two that begin alike neither is taken: lines may be read twice",
        "write app.log 0..200; write pea.log 0..200; settle; settle; settle; rest; stop; "
        "write app.log 200..300; cp app.log app.log.1; rm app.log; "
        "write pea.log 200..300; cp pea.log pea.log.1; rm pea.log; start; settle",
        "0..200 0..200",
        (NAMES, UNKNOWN, "vanished pea.log from 1400: *"),
        follow="*.log",
    ),
    Scenario(
        "a copy may be one of the same that was written again",
        "write app.log 0..200; rest; stop; rm app.log; tick; write again.log 0..300; "
        "cp again.log app.log.1; start; settle",
        "0..200 0..300",
        (NAMES, UNKNOWN),
        follow="*.log",
    ),
    Scenario(
        "copied and emptied between two looks",
        "write app.log 0..200; rest; write app.log 200..300; tick; cp2 app.log app.log.1; "
        "truncate app.log; write app.log new; settle",
        "0..300 new",
    ),
    Scenario(
        "copied and emptied twice: the second copy has what nobody has read",
        "write app.log 0..200; rest; write app.log 200..300; tick; cp2 app.log app.log.1; "
        "truncate app.log; write app.log unseen; tick; mv app.log.1 app.log.2; "
        "cp2 app.log app.log.1; truncate app.log; write app.log new; settle",
        "0..300 new",
        ("*may have been emptied: app.log",),
    ),
)
def test_the_name_of_the_copy_is_not_meant(logs: LogFolder, scenario: Scenario) -> None:
    follow = scenario.follow if scenario.follow == "*.log" else "app.log"
    check(logs, scenario._replace(follow=follow))


@scenarios(
    Scenario(
        "a copy with its times cannot have been written anew",
        f"{READ}cp2 app.log app.log.2; write app.log gone; tick; cp2 app.log app.log.1; "
        "write app.log unseen; tick; rm app.log.2; rm app.log; start; settle; rest; "
        "stop; start; settle",
        "0..300 gone",
        (NAMES, COPIED, "unchanged *"),
        counts={"sources": 1},
    ),
    Scenario(
        "one that an input means may have been: a line is rather read twice than not at all",
        f"{READ}cp app.log app.log.1; rm app.log; start; settle",
        "0..200 0..300",
        (NAMES, UNKNOWN),
    ),
    Scenario(
        "so may one of which there is a copy",
        f"{READ}rm app.log; tick; write app.log 0..300; tick; cp2 app.log app.log.1; start; settle",
        "0..200 0..300 0..300",
        (NAMES, UNKNOWN),
    ),
    Scenario(
        "an archive goes before a copy with its times",
        f"{READ}cp2 app.log app.log.1; write app.log 300..400; gzip app.log app.log.2.gz; "
        "rm app.log; start; settle",
        "0..400 0..300",
        (NAMES,),
    ),
)
def test_the_name_of_the_copy_is_meant(logs: LogFolder, scenario: Scenario) -> None:
    check(logs, scenario)


def test_it_is_said_from_when_it_was_last_seen(logs: LogFolder) -> None:
    files = logs.follow("app.log")
    Steps(logs, files).play(f"{READ}cp app.log app.log.1; rm app.log")
    (before,) = (each.seen_millis for each in files.journal.values())
    files.restart_closed()
    settle(files)
    (unseen,) = [each for each in of_folders(files) if "was copied" in each.reason]
    assert unseen.traces is Traces.CHANGED
    assert unseen.from_millis <= before + 1
    assert unseen.to_millis >= int(logs.path.stat().st_mtime * 1000)


def test_it_goes_on_where_it_was_after_a_crash(logs: LogFolder) -> None:
    files = logs.follow("app.log")
    Steps(logs, files).play(f"{READ}cp app.log app.log.1; rm app.log; start; look; look; look")
    files.read_some(100)
    files.restart()
    settle(files)
    assert files.text.decode().split() == words("0..300")
    assert len({source for source, _, _ in files.read}) == 1
    assert len([each for each in of_folders(files) if "was copied" in each.reason]) == 1


def test_a_copy_that_another_input_means_is_a_file_of_its_own(logs: LogFolder, log: Path) -> None:
    inputs = FileInput("live", "t", (str(log),)), FileInput("old", "u", (f"{log}.*",))
    files = JournalledFiles(*inputs)
    Steps(logs, files).play(f"{READ}cp app.log app.log.1; rm app.log; start; settle")
    assert files.text.decode().split() == words("0..200 0..300")
    assert [each.position for each in of_sources(files)] == [1400]
    files.close()


def test_two_inputs_go_on_in_one_copy(logs: LogFolder, log: Path) -> None:
    files = JournalledFiles(FileInput("one", "t", (str(log),)), FileInput("two", "u", (str(log),)))
    Steps(logs, files).play(f"{READ}cp app.log app.log.1; rm app.log; start; settle")
    assert files.text.decode().split() == words("0..200 0..200 200..300 200..300")
    assert of_sources(files) == []
    files.close()


def test_what_was_known_and_is_not_in_the_copy_is_lost(logs: LogFolder, log: Path) -> None:
    files = logs.follow("app.log")
    steps = Steps(logs, files)
    steps.play("write app.log 0..200; rest; write app.log 200..250; cp app.log app.log.1")
    steps.play("write app.log 250..300; look")
    (known,) = files.files.following()
    files.journal[known.source] = files.files.snapshot_of(known)
    steps.play("stop; tick; touch app.log.1; rm app.log; start; settle")
    assert files.text.decode().split() == words("0..250")
    assert files.lost == 350
    assert len([each for each in of_folders(files) if "was copied" in each.reason]) == 1
