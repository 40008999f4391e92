"""A file that moves into the folder of another input of its topic is not read twice."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from agent.configuration.file_inputs import FileInput
from agent.files.happenings import LeftToOther
from tests.agent.files.journalled_files import JournalledFiles, LogFolder
from tests.agent.files.scenarios import Steps, words


class Move(NamedTuple):
    """`inputs` are the names of the inputs at the start; `read`, what is read of which source."""

    name: str
    script: str
    read: str
    inputs: str = "live old"
    options: Mapping[str, int] = {}
    said: int = 1  # files that are said to be left to another input
    sources: int = 1


NO_HISTORY = "no agent followed these files"
READ = "mkdir old; write app.log 0..300; rest; "
MOVE = "mv app.log old/app.log; "
MOVES = (
    Move("while the agent runs", f"{READ}{MOVE}settle; rest", "0..300"),
    Move("inputs in another order", f"{READ}{MOVE}settle", "0..300", "old live"),
    Move("an input added later", f"{READ}{MOVE}settle; reload live old; settle", "0..300", "live"),
    Move("added before it is over", f"{READ}{MOVE}turn; reload live old; settle", "0..300", "live"),
    Move(
        "added with a restart",
        f"{READ}{MOVE}settle; stop; inputs live old; start; settle",
        "0..300",
        "live",
    ),
    Move("while no agent ran", f"{READ}stop; {MOVE}start; settle", "0..300"),
    Move("and the other is first", f"{READ}stop; {MOVE}start; settle", "0..300", "old live"),
    Move(
        "into an input that replaces its own",
        f"{READ}write app.log 300..400; stop; {MOVE}inputs old; start; settle",
        "0..400",
        said=0,
    ),
    Move(
        "its input is removed then",
        f"{READ}{MOVE}turn; reload old; write old/app.log 300..400; settle",
        "0..400",
    ),
    Move(
        "its input was removed before",
        f"{READ}reload old; {MOVE}write old/app.log 300..400; settle",
        "0..400",
        said=0,
    ),
    Move("grows then", f"{READ}{MOVE}turn; write old/app.log 300..400; settle", "0..400"),
    Move(
        "grows when it was over",
        f"{READ}{MOVE}settle; write old/app.log 300..400; settle; write old/app.log 400..450;"
        " settle; restart; settle",
        "0..450",
        sources=2,
    ),
    Move(
        "and back", f"{READ}{MOVE}settle; mv old/app.log app.log; settle; restart; settle", "0..300"
    ),
    Move(
        "while it is closed",
        f"{READ}write app.log.1 300..400; rest; {MOVE}settle; restart; settle",
        "0..400",
        options={"open_files": 1},
        sources=2,
    ),
    Move(
        "another file with its name",
        f"{READ}{MOVE}settle; write app.log 300..600; settle; mv app.log old/app.log; settle",
        "0..600",
        said=2,
        sources=2,
    ),
    Move(
        "an input of another topic", f"{READ}{MOVE}settle", "0..300 0..300", "live other", {}, 0, 2
    ),
    Move("two inputs that match it", f"{READ}settle; restart; settle", "0..300", "live twin"),
    Move(
        "the first of two is removed",
        f"{READ}write app.log 300..400; reload twin; settle; write app.log 400..500; settle",
        "0..500",
        "live twin",
    ),
)


@pytest.mark.parametrize("move", MOVES, ids=[each.name.replace(" ", "_") for each in MOVES])
def test_a_file_is_read_once_for_its_topic(logs: LogFolder, move: Move) -> None:
    inputs = {
        "live": FileInput("live", "t", (f"{logs.path}/app.log*",)),
        "twin": FileInput("twin", "t", (f"{logs.path}/*.log",)),
        "old": FileInput("old", "t", (f"{logs.path}/old/*",)),
        "other": FileInput("other", "u", (f"{logs.path}/old/*",)),
    }
    files = JournalledFiles(*(inputs[name] for name in move.inputs.split()), **move.options)  # type: ignore[arg-type]
    logs.followers.append(files)
    steps = Steps(logs, files)

    def configure(*names: str) -> None:
        files.inputs = [inputs[name] for name in names]

    def reload(*names: str) -> None:
        configure(*names)
        files.said += files.files.reconfigure(files.inputs)

    steps.steps |= {"inputs": configure, "reload": reload, "restart": files.restart}
    steps.play(move.script)
    assert sorted(files.text.decode().split()) == sorted(words(move.read))
    assert len({source for source, _, _ in files.read}) == move.sources
    assert len(list(files.of(LeftToOther))) >= move.said
    assert files.lost == 0
    assert [each for each in files.unwatched if each.source or NO_HISTORY not in each.reason] == []
