"""Two clusters of real brokers, each with its own ZooKeepers, and mirrors from one to the other.

All connections can be controlled: see broker_cluster.py and mirror_workers.py.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.clusters.mirror_workers import Mirrors

SOURCE: Final = "dc1"
TARGET: Final = "offline"
PREFIX: Final = f"{SOURCE}."


class TwoClusters(Mirrors):
    """Two clusters, whose brokers are ready, without a mirror: `with TwoClusters(directory) as
    clusters`."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: tuple[int, int] = (1, 1),
        mirrors: int = 1,
        settings: Mapping[str, object] | None = None,
        mirror_settings: Mapping[str, object] | None = None,
        environments: Mapping[str, Mapping[str, str]] | None = None,
        data_dirs: Mapping[int, Path] | None = None,
        mirror_program: str = "penstock",
    ) -> None:
        """`brokers` are the numbers in source and target. `settings` apply to all brokers.
        `environments` are by name: `source-1`, `target-3`, `mirror-2`. `data_dirs` are those of the
        target's brokers, if they are elsewhere. `mirror_program` is the module to run for each
        mirror."""
        all_environments = environments or {}
        source, target = (
            BrokerCluster(
                directory / role,
                brokers=count,
                settings={"cluster": name, **(settings or {})},
                environments={
                    number: all_environments[f"{role}-{number}"]
                    for number in range(1, count + 1)
                    if f"{role}-{number}" in all_environments
                },
                data_dirs=data_dirs if role == "target" else None,
            )
            for role, name, count in zip(
                ("source", "target"), (SOURCE, TARGET), brokers, strict=True
            )
        )
        super().__init__(
            directory,
            (SOURCE, source),
            (TARGET, target),
            workers=mirrors,
            settings={"prefix": PREFIX, **(mirror_settings or {})},
            environments=all_environments,
            program=mirror_program,
        )

    def mend_links(self) -> None:
        """Mends all links of mirrors and clusters."""
        self.mend_map_links()
        for cluster in self.both:
            cluster.mend_links()

    # Start and stop

    def start(self) -> None:
        for cluster in self.both:
            cluster.start()

    def close(self) -> None:
        """Stops everything."""
        self.end()
        for cluster in self.both:
            cluster.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
