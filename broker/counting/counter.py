"""The broker's side of its ledger: runs the counting process, and reports the state of logs to it.

Trouble here affects only the ledger. A child that ends is restarted with growing pauses; a slow one
gets its next report when it has handled the last; its problems are logged once. Neither appending
nor serving ever waits for any of it.
"""

import asyncio
import logging
import os
import socket
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

import msgspec

from broker.configs.config import BrokerConfig
from broker.configs.listeners import Listener
from broker.counting.broker_health import BrokerHealth
from broker.counting.reports import (
    SIZE_BYTES,
    CheckedLog,
    CountingReport,
    CountingResult,
    DamagedOffsets,
    Led,
    LostOffsets,
    Task,
    framed,
)
from broker.replicas.log_losses import Withdrawals
from broker.replicas.partitions import Partitions
from broker.storage.log import Log
from ground.known_types import known_type
from ledger.counting.counted_offsets import EpochStart
from ledger.health import Problem, ProblemKind
from ledger.names import topic_id_text

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_END_SECONDS: Final = 2.0
_AT_ONCE: Final = 200  # partitions, before the event loop gets its turn
_MOST: Final = 100  # damages shown one by one


class CountingFindings:
    """The counting process's findings since the broker started: damage, and the progress of
    re-reading.

    Written by the event loop, read by any thread. The ledger has them, too; these are for people
    who look at the broker.
    """

    def __init__(self) -> None:
        self.damaged: list[DamagedOffsets] = []
        self.damaged_batches: Counter[tuple[str, int]] = Counter()
        self.scrubbed_bytes = 0
        self.scrubbed_millis = -1
        self.checked: dict[tuple[str, int], CheckedLog] = {}
        """When each counted partition's log was last re-read."""

    def follow(self, led: Sequence[Led], held: Container[tuple[str, int]]) -> None:
        """Forgets damage in offsets before the start of a log, and in partitions that this broker
        does not hold any more."""
        starts = {(entry.topic, entry.partition): entry.start for entry in led}
        self.checked = {key: self.checked.get(key, CheckedLog(*key, -1, -1)) for key in starts}
        self.damaged = [
            damage
            for damage in self.damaged
            if (key := (damage.topic, damage.partition)) in held
            and damage.first + damage.offsets > starts.get(key, 0)
        ]

    def note(self, looked: CountingResult) -> None:
        for damage in looked.damaged:
            if any(damage[:4] == known_damage[:4] for known_damage in self.damaged):
                continue  # found again, and already known
            self.damaged_batches[damage.topic, damage.partition] += 1
            self.damaged = [*self.damaged, damage][-_MOST:]
            log.error(
                "damaged batch topic=%s partition=%d first_offset=%d offsets=%d reason=%r", *damage
            )
        self.scrubbed_bytes += looked.scrubbed_bytes
        self.scrubbed_millis = max(self.scrubbed_millis, looked.scrubbed_millis)
        self.checked.update(
            ((checked_log.topic, checked_log.partition), checked_log)
            for checked_log in looked.checked
            if (checked_log.topic, checked_log.partition) in self.checked
        )

    @property
    def remarks(self) -> list[str]:
        """A line about each damaged batch."""
        return [
            f"damaged: {damage.topic}-{damage.partition}, messages {damage.first:,} to "
            f"{damage.first + damage.offsets - 1:,}: {damage.reason}; what ends this line: "
            "docs/runbook.md, `damaged`"
            for damage in self.damaged
        ]

    @property
    def problems(self) -> list[Problem]:
        """The first damage of each partition, as a problem for the ledger."""
        first_damage = {
            (damage.topic, damage.partition): damage for damage in reversed(self.damaged)
        }
        return [
            Problem(
                ProblemKind.OTHER,
                f"damaged messages in {topic}-{partition}",
                f"{damage.first:,} to {damage.first + damage.offsets - 1:,}",
            )
            for (topic, partition), damage in first_damage.items()
        ]


class LedgerCounter:
    """Runs the counting process from its creation until `stop`. Belongs to the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        listeners: Sequence[Listener],
        partitions: Partitions,
        withdrawals: Withdrawals,
        findings: CountingFindings,
        *,
        health: BrokerHealth,
    ) -> None:
        between_brokers = config.between
        host, port = next(
            listener.from_here
            for listener in listeners
            if listener.name == between_brokers.listener
        )
        self._task = Task(
            data_dir=config.data_dir,
            broker=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            security=between_brokers.security,
            registry=config.registry_address,
            cluster=config.cluster,
            host=socket.gethostname(),
            window_millis=config.window * 1000,
            interval=config.ledger_interval,
            checks=config.checks,
        )
        self._partitions = partitions
        self._withdrawals = withdrawals
        self._found = findings
        self._health = health
        self._trouble = ""
        self._pause = _FIRST_PAUSE
        self._running = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Stops counting, and ends the counting process even in the middle of its work."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                status = await self._one_process()
                reason = f"the process ended with status {status}"
            except (OSError, msgspec.DecodeError) as error:
                reason = str(error)
            log.warning(
                "counting process ended, restarting reason=%r seconds=%g", reason, self._pause
            )
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _one_process(self) -> int:
        """Return when the process has ended by itself; cancelling this ends it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # do not import modules from the working directory
            "-m",
            "broker.counting.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            await self._serve(process)
            return await process.wait()
        finally:
            await _ended(process)

    async def _serve(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        message = framed(self._task)
        while True:
            message += framed(await self._report())
            if process.stdin.is_closing():
                return  # it ended between two looks; writing would raise RuntimeError
            process.stdin.write(message)
            message = b""
            try:
                size = int.from_bytes(await process.stdout.readexactly(SIZE_BYTES), "big")
                body = await process.stdout.readexactly(size)
            except asyncio.IncompleteReadError:
                return
            result = msgspec.msgpack.decode(body, type=known_type(CountingResult))
            self._note(result)
            if result.told:
                await asyncio.to_thread(self._withdrawals.told, result.told)
            await asyncio.sleep(self._task.interval)

    def _note(self, looked: CountingResult) -> None:
        if looked.trouble and looked.trouble != self._trouble:
            log.warning("ledger counting paused reason=%r", looked.trouble)
        elif self._trouble and not looked.trouble:
            log.info("ledger counting resumed batches=%d", looked.batches)
        self._trouble = looked.trouble
        self._found.note(looked)
        if not looked.trouble:
            self._pause = _FIRST_PAUSE

    async def _report(self) -> CountingReport:
        led_partitions: list[Led] = []
        held: set[tuple[str, int]] = set()
        for index, partition in enumerate(self._partitions):
            held.add((partition.topic, partition.index))
            if index % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            if partition.topic.startswith("_") or partition.unavailable is not None:
                continue
            if partition.mirror_of is not None and partition.mirror_of.of_penstocks_own:
                continue
            if not partition.leads:  # the leader counts
                continue
            log_ = partition.log
            led_partitions.append(
                Led(
                    topic=partition.topic,
                    topic_id=topic_id_text(log_.topic_id),
                    partition=partition.index,
                    directory=str(log_.directory),
                    start=log_.start_offset,
                    exposed=log_.exposed_offset,
                    leader_epoch=partition.leader_epoch,
                    compacts=partition.compacts,
                    end=log_.end_offset,
                    epochs=epochs_of(log_, partition.leader_epoch),
                    unclean=partition.info.unclean,
                    mirror_of=partition.mirror_of,
                )
            )
        self._found.follow(led_partitions, held)
        return CountingReport(
            led_partitions,
            list(self._partitions.offline),
            [
                LostOffsets(
                    loss.number,
                    loss.topic,
                    loss.topic_id,
                    loss.partition,
                    loss.leader_epoch,
                    loss.first,
                    loss.count,
                    loss.resumes,
                    loss.reason,
                )
                for loss in self._withdrawals.untold()
            ],
            await self._health.now(self._found.problems),
        )


def epochs_of(log_: Log, leader_epoch: int) -> list[EpochStart]:
    """Returns the log's epochs up to `leader_epoch`, which may not have a batch yet."""
    starts = [EpochStart(*entry) for entry in log_.epochs.entries if entry[0] <= leader_epoch]
    if not starts or starts[-1].leader_epoch < leader_epoch:
        starts.append(EpochStart(leader_epoch, log_.end_offset))
    return starts


async def _ended(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    if process.returncode is None:
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
