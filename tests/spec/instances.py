"""Sizes in which replication is searched, and the flaws by which the model itself is tried.

Every count is a bound of the search: within it, all that can happen is looked at.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

# What always holds, unless a disk is lost or unclean leaders are allowed.
ALL: Final = ("Order", "SeenStays", "InSyncHaveAll", "AckedKept", "OneLeader", "EpochsName")
# What holds if a disk is lost: records that one replica alone had may be gone.
WITHOUT_A_DISK: Final = ("Order", "AckedKept", "OneLeader")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """The model with its bounds. `changes` counts the states of the map, the first one included."""

    brokers: int
    records: int
    changes: int
    proposals: int = 2
    crashes: int = 0
    power_losses: int = 0
    disk_losses: int = 0
    trims: int = 0
    min_in_sync: int = 1
    late_fetches: bool = False
    unclean: bool = False
    flaw: str = ""
    invariants: tuple[str, ...] = ALL

    def configuration(self) -> str:
        """What TLC reads beside the module."""
        names = [f"b{number}" for number in range(1, self.brokers + 1)]
        constants = {
            **{name: name for name in names},
            "Brokers": "{" + ", ".join(names) + "}",
            "None": "None",
            "Flaws": f'{{"{self.flaw}"}}' if self.flaw else "{}",
            "MinInSync": self.min_in_sync,
            "MaxRecords": self.records,
            "MaxChanges": self.changes,
            "MaxProposals": self.proposals,
            "MaxCrashes": self.crashes,
            "MaxPowerLosses": self.power_losses,
            "MaxDiskLosses": self.disk_losses,
            "MaxTrims": self.trims,
            "LateFetches": str(self.late_fetches).upper(),
            "Unclean": str(self.unclean).upper(),
        }
        return "\n".join(
            [
                "SPECIFICATION Spec",
                "CONSTANTS",
                *(f"    {name} = {value}" for name, value in constants.items()),
                "INVARIANTS " + " ".join(self.invariants),
                "SYMMETRY Symmetry",
                "VIEW View",
                "CHECK_DEADLOCK FALSE",
                "",
            ]
        )


SMALL: Final = Instance(brokers=2, records=1, changes=2, crashes=1, power_losses=1)

_TWO: Final = Instance(brokers=2, records=2, changes=2)
_THREE: Final = Instance(brokers=3, records=1, changes=3)
_DISK: Final = Instance(
    brokers=2, records=1, changes=3, proposals=1, disk_losses=1, invariants=WITHOUT_A_DISK
)
# `make spec` searches these, the smallest first, and walks at random through the last.
SIZES: Final = {
    "small": SMALL,
    "late": replace(SMALL, late_fetches=True),
    "disk": _DISK,
    "disk-again": replace(_DISK, changes=4),
    "trim": Instance(brokers=2, records=2, changes=2, trims=1, power_losses=1),
    "two": Instance(brokers=2, records=2, changes=3, crashes=1, power_losses=1),
    "three": Instance(brokers=3, records=1, changes=3, proposals=1),
    "three-dark": Instance(brokers=3, records=1, changes=3, proposals=1, power_losses=1),
    "three-disks": replace(_DISK, brokers=3, changes=4, min_in_sync=2),
    "two-late": Instance(
        brokers=2, records=3, changes=4, crashes=1, power_losses=2, trims=1, late_fetches=True
    ),
}
WALKED: Final = Instance(
    brokers=3, records=6, changes=9, proposals=6, crashes=3, power_losses=3, trims=1,
    late_fetches=True,
)  # fmt: skip


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is left out, the invariant that breaks first, and the size that shows it."""

    rule: str
    left_out: str
    breaks: str
    instance: Instance
    takes_long: bool = False


FLAWS: Final = {
    "no-fencing": Flaw(
        rule="R8",
        left_out="a fetch, or an answer, of another epoch is refused",
        breaks="InSyncHaveAll",
        instance=replace(_TWO, changes=3),
    ),
    "no-truncation": Flaw(
        rule="R8",
        left_out="a follower truncates where its history parts from the leader's",
        breaks="InSyncHaveAll",
        instance=_TWO,
    ),
    "diverging-counts": Flaw(
        rule="R8",
        left_out="the offset of a fetch whose history diverges is no progress",
        breaks="InSyncHaveAll",
        instance=_TWO,
    ),
    "hw-without-flush": Flaw(
        rule="R3",
        left_out="of its own log, the leader counts only what it has flushed",
        breaks="Order",
        instance=Instance(brokers=2, records=1, changes=1, power_losses=1),
    ),
    "exposes-at-start": Flaw(
        rule="R3",
        left_out="a log that is opened exposes no more than its checkpoint",
        breaks="Order",
        instance=Instance(brokers=2, records=1, changes=1, crashes=1),
    ),
    "minimal-isr": Flaw(
        rule="R3",
        left_out="while the ISR changes, the old one and the new one count",
        breaks="InSyncHaveAll",
        instance=Instance(brokers=2, records=1, changes=2),
    ),
    "fetch-offset-written": Flaw(
        rule="R2",
        left_out="a follower's fetch offset is what it has flushed",
        breaks="InSyncHaveAll",
        instance=Instance(brokers=2, records=1, changes=1, power_losses=1),
    ),
    "no-compare-and-set": Flaw(
        rule="R5",
        left_out="an ISR that was proposed for another state of the node is refused",
        breaks="InSyncHaveAll",
        instance=Instance(brokers=2, records=1, changes=3),
    ),
    "join-before-epoch": Flaw(
        rule="R5",
        left_out="who joins has reached the beginning of the leader's epoch",
        breaks="InSyncHaveAll",
        instance=replace(_THREE, proposals=1),
        takes_long=True,
    ),
    "progress-kept": Flaw(
        rule="R5",
        left_out="what a leader knows of its followers ends with its epoch",
        breaks="InSyncHaveAll",
        instance=replace(_THREE, proposals=0),
        takes_long=True,
    ),
    "unclean-leader": Flaw(
        rule="R6",
        left_out="a leader is chosen from the ISR",
        breaks="InSyncHaveAll",
        instance=Instance(brokers=2, records=1, changes=2),
    ),
    "no-raise": Flaw(
        rule="R7",
        left_out="a leader that opens its log raises its epoch first",
        breaks="EpochsName",
        instance=Instance(brokers=2, records=2, changes=1, power_losses=1),
    ),
    "stale-start": Flaw(
        rule="R7",
        left_out="a start goes by a map that is no older than the start",
        breaks="InSyncHaveAll",
        instance=replace(_TWO, power_losses=1),
    ),
    "deposed-answers": Flaw(
        rule="R9",
        left_out="a deposed leader answers all who wait that it does not lead",
        breaks="AckedKept",
        instance=_TWO,
    ),
    "stays-in-isr": Flaw(
        rule="R10",
        left_out="a broker that lost its disk leaves the ISR before it registers",
        breaks="AckedKept",
        instance=_DISK,
    ),
    "leaves-without-epoch": Flaw(
        rule="R10",
        left_out="it raises the epoch in the same change",
        breaks="AckedKept",
        instance=_DISK,
    ),
}
