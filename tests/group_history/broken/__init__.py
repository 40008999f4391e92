"""Brokers that are broken on purpose: each module is a broker's program that leaves out a rule of
groups, as those of tests/cluster_history/broken leave out one of replication.

`FLAWS` says of each which promise of docs/groups.md it breaks, and by which rules of the judge's it
must be caught, with the script in scripts/ that makes it show. Whole brokers must come through the
same script.
"""

from pathlib import Path
from typing import Final

from tests.cluster_history import broken
from tests.cluster_history.script import Script
from tests.group_history.script import parse

SCRIPTS: Final = Path(__file__).parents[1] / "scripts"


class Flaw(broken.Flaw, frozen=True):
    def parsed(self) -> Script:
        return parse((SCRIPTS / f"{self.script}.script").read_text())


FLAWS: Final = {
    "answered-too-soon": Flaw(
        rule="1",
        left_out="a commit is answered when it is durable",
        script="dark-zookeeper",
        breaks=frozenset({"lost"}),
    ),
    "no-fence": Flaw(
        rule="2",
        left_out="a broker that another one has followed writes nothing",
        script="follower-of-a-frozen-one",
        breaks=frozenset({"lost", "generations", "old", "shared"}),
    ),
    "old-generations": Flaw(
        rule="2",
        left_out="who is not in the present generation commits nothing",
        script="come-and-go",
        breaks=frozenset({"old", "stranger"}),
    ),
}
