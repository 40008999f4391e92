"""The brokers of a checkout: one, or a cluster in which every partition is on all of them.

One at a time is in trouble: killed or frozen, its files spoilt, started or thawed. In a cluster the
trouble is over when all replicas are in sync again, but those that cannot be, as what they or their
leaders have is damaged; the next one is then another broker's. So whatever is done to one of them,
the others have it all. Or all of a cluster are killed at once, and what is spoilt meanwhile may be
gone from all of them; or all but one, which acknowledges alone what it may.
"""

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.penstock.broker_metadata import ask_metadata
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.campaigns.witness.programs import START, Program, ask

_WHOLE: Final = 120.0


class Brokers:
    def __init__(
        self, checkout: Path, directory: Path, settings: Mapping[str, object], count: int
    ) -> None:
        """`settings` of all of them; the rest is each one's own."""
        self.programs: list[Program] = []
        self.data: list[Path] = []
        addresses = []
        for broker_id in range(1, count + 1):
            port, http_port = free_ports(2)
            folder = directory / ("broker" if count == 1 else f"broker-{broker_id}")
            self.data.append(folder / "data")
            addresses.append(f"127.0.0.1:{port}")
            own: dict[str, object] = {"id": broker_id, "port": port, "http_port": http_port}
            own["data_dir"] = str(self.data[-1])
            if count > 1:
                own |= {"rack": f"r{broker_id}", "replication": {"lag_seconds": 6}}
                own["topic_defaults"] = {"replication_factor": count}
            self.programs.append(
                Program(checkout, "broker", folder, {**settings, **own}, http_port=http_port)
            )
        self.happened: Counter[str] = Counter()
        self.bootstrap = ",".join(addresses)
        self._addresses = addresses
        self._at = 0  # whose turn it is
        self._frozen = False
        self._alone = False  # since the others were killed, until all run again

    @property
    def count(self) -> int:
        return len(self.programs)

    @property
    def in_trouble(self) -> Program:
        """Whose turn it is; it may still be well."""
        return self.programs[self._at]

    @property
    def id_in_trouble(self) -> int:
        return self._at + 1

    @property
    def troubled_data(self) -> Path:
        return self.data[self._at]

    @property
    def serving(self) -> bool:
        """Whether clients are served by those that are well: in a cluster, soon again."""
        return not self._alone and self._well > self.count // 2

    @property
    def serving_unclean(self) -> bool:
        """The same of topics that anybody may lead, and that one replica is enough for."""
        return self._well > 0

    @property
    def _well(self) -> int:
        frozen = self._frozen and self.in_trouble.alive
        return sum(each.alive for each in self.programs) - frozen

    def start_all(self) -> None:
        """Side by side, as far as that goes."""
        for each in self.programs:
            each.spawn()
        for each in self.programs:
            self._start(each)

    def start(self, topics: Sequence[str] = ()) -> None:
        """All that do not run."""
        dead = [each for each in self.programs if not each.alive]
        self.start_all()
        self._alone = False
        if dead:
            self.happened["broker came back"] += len(dead)
            self._over(topics)

    def _start(self, broker: Program) -> None:
        deadline = time.monotonic() + START
        while True:
            try:
                broker.start()
                break
            except Exception:
                # Its session of before may still be there, or ZooKeeper does not answer yet.
                if time.monotonic() > deadline:
                    raise
                broker.kill()
                time.sleep(0.3)

    def kill(self) -> None:
        self._kill(self.in_trouble)

    def kill_all(self) -> bool:
        """At once. Of one alone there is an action of its own."""
        if self.count > 1:
            for each in self.programs:
                self._kill(each)
            self.happened["all brokers killed at once"] += 1
        return self.count > 1

    def kill_others(self, topics: Sequence[str]) -> bool:
        """So that the one whose turn it is leads, and acknowledges what only it has."""
        if self.count > 1:
            self._alone = True
            for each in self._others():
                self._kill(each)
            self._wait_led(topics, {self.id_in_trouble})
        return self.count > 1

    def start_others(self, unclean: Sequence[str]) -> None:
        """All but the one whose turn it is; they lead these topics, though they lack something."""
        for each in self._others():
            each.spawn()
        for each in self._others():
            self._start(each)
            self.happened["broker came back"] += 1
        if not self.in_trouble.alive:
            ids = set(range(1, self.count + 1)) - {self.id_in_trouble}
            self._wait_led(unclean, ids)

    def _others(self) -> list[Program]:
        return [each for each in self.programs if each is not self.in_trouble]

    def _wait_led(self, topics: Sequence[str], brokers: Set[int]) -> None:
        """By any of these; or a log is damaged, or has no replica that may lead."""
        asked = self._addresses[min(brokers) - 1]

        def led() -> bool:
            offline = self.offline()
            try:
                return all(
                    each in offline or ask_metadata(asked, each)[0].leader in brokers
                    for each in topics
                )
            except OSError:
                return False

        with suppress(TimeoutError):
            wait_until(led, within=_WHOLE, what="the topics are led", every=0.3)

    def _kill(self, broker: Program) -> None:
        self.happened["broker killed"] += broker.alive
        broker.kill()

    @property
    def all_dead(self) -> bool:
        return not any(each.alive for each in self.programs)

    def wipe(self) -> bool:
        """The disk of one that is dead is replaced by an empty one; others have what was on it."""
        if self.count == 1 or self.in_trouble.alive or self.all_dead:
            return False
        for each in self.troubled_data.iterdir():  # the directory may be a disk of its own
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        self.happened["broker's disk emptied"] += 1
        return True

    def freeze(self) -> None:
        if self.in_trouble.alive:
            self.in_trouble.freeze()
            self._frozen = True
            self.happened["broker frozen"] += 1

    def thaw(self, topics: Sequence[str] = ()) -> None:
        self.in_trouble.thaw()
        if self._frozen:
            self._frozen = False
            self._over(topics)

    def _over(self, topics: Sequence[str]) -> None:
        if self.count > 1:
            wait_until(
                lambda: self._are_whole(topics),
                within=_WHOLE,
                what="all replicas are in sync",
                every=0.3,
            )
            self._at = (self._at + 1) % self.count

    def _are_whole(self, topics: Sequence[str]) -> bool:
        offline = self.offline()
        return all(each in offline or self._is_whole(each) for each in topics)

    def _is_whole(self, topic: str) -> bool:
        """As all of them say."""
        try:
            said = [ask_metadata(each, topic) for each in self._addresses]
        except OSError:
            return False
        return all(
            set(each.replicas) == set(each.in_sync)
            for partitions in said
            for each in partitions.values()
        )

    def stop(self) -> None:
        for each in self.programs:
            each.stop()

    def offline(self) -> set[str]:
        """Topics of which a broker says that it cannot serve them."""
        found: set[str] = set()
        for each in self.programs:
            if each.alive and not (self._frozen and each is self.in_trouble):
                said = ask(each.http_port, "/metrics")[1].decode()
                found |= set(
                    re.findall(
                        r'^penstock_broker_partition_online\{.*topic="(.+?)".* 0',
                        said,
                        re.MULTILINE,
                    )
                )
        return found

    def repair(self, checkout: Path, topics: Sequence[str]) -> None:
        """What lies behind the damage is given up, as operators do; what others have of it comes
        from them. One broker after the other."""
        for each in self.programs:
            each.stop()
            for topic in topics:
                subprocess.run(
                    [
                        *(str(checkout / ".venv/bin/penstock"), "topics", "repair", topic, "0"),
                        *("--config", str(each.config), "--give-up"),
                    ],
                    capture_output=True,
                    timeout=120,
                    check=False,
                )
            each.start()
