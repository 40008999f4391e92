"""What a site consists of. Values.

cluster     web-1, web-2 ─▶ three brokers, two registries ─▶ loader ─▶ files

mirrored    web-1, web-2 ─▶ dc1 ─▶ mirror, two workers ─▶ offline ─▶ loader ─▶ files
            web-3        ─▶ dc2 ─▶ mirror, one worker  ─▶    │
                            └──────────── ledgers ───────────┴────▶ audit
"""

from typing import Final

import msgspec

TOPIC: Final = "visits"
_IDS: Final = 1_000_000


class Part(msgspec.Struct, frozen=True):
    """One cluster with what belongs to it."""

    name: str
    brokers: int
    hosts: tuple[str, ...] = ()
    partitions: int = 0  # of TOPIC
    registries: int = 1
    workers: int = 0  # of its mirror into the last part
    first_id: int = 1  # of its schemas

    def copy(self, last: "Part") -> str:
        """The name of its topic where the loader reads it."""
        return TOPIC if self is last else f"{self.name}.{TOPIC}"


class Shape(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    """The loader reads from the last."""
    tiers: tuple[str, ...]  # that count every line

    @property
    def last(self) -> Part:
        return self.parts[-1]

    @property
    def origins(self) -> tuple[Part, ...]:
        """Where lines are shipped to."""
        return tuple(each for each in self.parts if each.hosts)

    def topics_of(self, part: Part) -> dict[str, int]:
        """Partitions of all that there will be."""
        found = {"_audit": 3 if part.brokers > 2 else 2, "_schemas": 1}
        found |= {TOPIC: part.partitions} if part.hosts else {}
        for each in self.origins if part is self.last else ():
            found[each.copy(part)] = each.partitions
            if each is not part:
                found[f"{each.name}._schemas"] = 1
        return found


CLUSTER: Final = Shape(
    (Part("test", 3, ("web-1", "web-2"), partitions=6, registries=2),), ("agent", "broker", "hdfs")
)
MIRRORED: Final = Shape(
    (
        Part("dc1", 2, ("web-1", "web-2"), partitions=4, workers=2),
        Part("dc2", 1, ("web-3",), partitions=2, workers=1, first_id=1 + _IDS),
        Part("offline", 3, first_id=1000 * _IDS),
    ),
    ("agent", "origin", "broker", "hdfs"),
)
SHAPES: Final = {"cluster": CLUSTER, "mirrored": MIRRORED}


def victims(shape: Shape) -> list[str]:
    """Who can be in trouble, by names as `broker-dc1-2`."""
    found = ["audit", "loader"]
    for part in shape.parts:
        for what, count in (("broker", part.brokers), ("mirror", part.workers)):
            found += [f"{what}-{part.name}-{each}" for each in range(1, count + 1)]
        if part.registries > 1:
            found += [f"registry-{part.name}-{each}" for each in range(1, part.registries + 1)]
        found += [f"agent-{host}" for host in part.hosts]
    return found
