"""What is done to two clusters and the mirrors between them in a run, as lines that a person can
read. Those of cluster_history come with `source-` or `target-` before them. Pure.

    seed 7
    cluster brokers=3 factor=3 in-sync=2 zookeepers=1 session=4
    begin-mirror 1
    target-kill 2
    cut-mirror 1 source
    pause 2.5
    mend-mirrors
    target-start 2
    overtake
"""

from typing import Final

from tests.cluster_history import script
from tests.cluster_history.script import Script

SIDES: Final = ("source", "target")
_OF_CLUSTERS: Final = (
    *("kill", "stop", "start", "freeze", "thaw", "lose-power", "cut", "slow"),
    *("kill-everywhere", "start-everywhere", "lose-power-everywhere"),
    *("cut-map", "reset-map", "mend"),
    *("kill-zookeeper", "start-zookeeper", "freeze-zookeeper", "thaw-zookeeper"),
    *("fail-syncs", "slow-syncs", "heal-disk", "settle"),
)
ACTIONS: Final = {
    **{f"{side}-{each}": script.ACTIONS[each] for side in SIDES for each in _OF_CLUSTERS},
    **{
        f"{side}-{verb}-leader": ("PARTITION",)  # whoever leads it now
        for side in SIDES
        for verb in ("kill", "freeze")
    },
    **{f"{side}-thaw-all": () for side in SIDES},
    **{f"{side}-clock": ("SECONDS",) for side in SIDES},  # of all its brokers, away from true
    "mirror-clock": ("SECONDS",),  # of all mirrors
    "fill-disk": ("BROKER",),  # of the target; not a byte is free
    "free-disk": ("BROKER",),  # and it is started anew
    "begin-mirror": ("MIRROR",),
    "stop-mirror": ("MIRROR",),  # SIGTERM
    "kill-mirror": ("MIRROR",),
    "freeze-mirror": ("MIRROR",),
    "thaw-mirror": ("MIRROR",),
    "cut-mirror": ("MIRROR", "SIDE"),
    "slow-mirror": ("MIRROR", "SIDE", "SECONDS"),
    "cut-mirror-map": ("MIRROR",),
    "mend-mirrors": (),
    "overtake": (),  # the source throws away what was not copied yet
    "make-anew": (),  # a topic of the source is deleted and made again
    "lose-tail": (),  # all brokers of the source lose the end of a log that was copied
    "pause-copy": (),  # by `penstock mirror pause`, and on again
    "resume-copy": (),
    "open-copy": ("PARTITION",),  # promoted, and then something is written to it
    "close-copy": (),  # demoted, and what was written there thrown away
    "pause": script.ACTIONS["pause"],
}


def parse(text: str) -> Script:
    return script.parse(text, ACTIONS)
