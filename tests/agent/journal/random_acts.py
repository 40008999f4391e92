"""Whatever an agent may tell its journal, in any order, as a random source decides.

The same decisions lead to the same acts. Run as a program, it acts in a directory until it is
killed, and prints a line for each act that is done: `python -m tests.agent.journal.random_acts
DIRECTORY SEED`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

from agent.accounting.alterations import Alteration, Altered, AlteredText
from agent.accounting.parcels import Eventless, Outgoing, Parcel
from agent.accounting.runs import KnownSource, Progress, Run, SourceId
from agent.history.blind_times import NOT_KNOWN, LookedAt, Patterns, Stamp, Traces, Unwatched
from agent.journal.journal import Journal
from client.producing.delivery import TopicPartition
from tests.agent.journal.samples import ME, batch, known, ledger, open_journal, outgoing

LIMIT = 300


class Acts:
    """One agent, as far as its journal sees it."""

    def __init__(self, journal: Journal, decisions: Random) -> None:
        self.journal = journal
        self._decisions = decisions
        self._sources = 0
        self._millis = 0
        self._acts: list[Callable[[], None]] = [
            *[self.ship] * 4,
            *[self.number] * 4,
            *[self.acknowledge] * 7,
            self.meet_source,
            self.rename_source,
            *[self.speak] * 3,
            self.split,
            self.finish,
            self.end_unseen,
            self.look,
            self.forget,
            self.choose_partition,
            self.begin_partition,
        ]

    def act(self) -> None:
        self._decisions.choice(self._acts)()

    def meet_source(self) -> None:
        self._sources += 1
        self.journal.source(known(SourceId(f"s{self._sources}"), self._sources))

    def rename_source(self) -> None:
        if sources := self.journal.sources:
            one = self._decisions.choice(sources)
            self.journal.source(known(one.id, last_path=f"{one.path}.1", size=self._sources))

    def ship(self) -> None:
        if not (sources := self.journal.sources):
            return
        chosen = self._decisions.sample(sources, min(len(sources), 2))
        progress, runs = {}, []
        for each in chosen:
            at = each.progress
            events = self._decisions.randint(0, 3)
            runs.append(Run(each.id, at.seq, events, at.position, at.position + 10, 1))
            progress[each.id] = Progress(at.position + 10, at.seq + events, at.dead_seq)
        full = [each for each in runs if each.events]
        empty = [each for each in runs if not each.events or self._decisions.random() < 0.1]
        batches = [outgoing(self.journal.next_number(), *full)] if full else []
        if full and self._decisions.random() < 0.3:
            more = batch(1, "views.dead", fill=b"\x00PJ" * self._decisions.randint(0, 400))
            batches.append(outgoing(self.journal.next_number(), full[0], batch=more))
        eventless = [Eventless(self.journal.next_number(), "views", each) for each in empty]
        self.journal.parcel(Parcel(batches, eventless, progress, [*self._altered(chosen)]))

    def _altered(self, sources: Iterable[KnownSource]) -> Iterator[AlteredText]:
        for each in sources:
            if self._decisions.random() < 0.3:
                cut = Altered(Alteration.CUT, 1, self._decisions.randint(1, 9), "", "cp1252")
                number = self.journal.next_number()
                yield AlteredText(number, "views", "shop", each.id, each.path, cut, 1, 2)

    def number(self) -> None:
        waiting = [each for each in self.journal.open_batches if each.numbers is None][:3]
        self.journal.numbered(
            [(each.outgoing.number, ME, each.outgoing.number, 9) for each in waiting]
        )

    def acknowledge(self) -> None:
        if waiting := self.journal.open_batches:
            number = self._decisions.choice(waiting[:2]).outgoing.number
            digest = self._decisions.choice([b"", self._decisions.randbytes(32)])
            self.journal.acknowledged(number, self._decisions.choice([-1, number]), 1, digest)

    def speak(self) -> None:
        if said := self.journal.unpublished[: self._decisions.randint(1, 20)]:
            number = self.journal.next_number()
            spoken = ledger(number, *(each.number for each in said), entries=2)
            self.journal.parcel(Parcel([spoken], [], {}))

    def split(self) -> None:
        if waiting := self.journal.open_batches:
            old = self._decisions.choice(waiting).outgoing
            self.journal.replaced(old.number, [self._again(old) for _ in range(2)])

    def _again(self, old: Outgoing) -> Outgoing:
        number = self.journal.next_number()
        return Outgoing(number, old.kind, old.batch, old.runs, old.windows, old.delays, old.covers)

    def finish(self) -> None:
        self._millis += 1
        if sources := self.journal.sources:
            self.journal.finished(self._decisions.choice(sources).id, self._millis)

    def end_unseen(self) -> None:
        """Of a source, or a time of a folder."""
        sources = [SourceId(""), *(each.id for each in self.journal.sources)]
        source = self._decisions.choice(sources)
        said = Unwatched("views", "/var/log", source, 7, 1, 2, Traces.CHANGED, "nobody looked")
        self.journal.unwatched(said)

    def look(self) -> None:
        self._millis += 1
        name = f"in{self._decisions.randint(0, 3)}"
        folder = f"/var/log/{self._decisions.randint(0, 5)}"
        stamp = Stamp(1, 2, self._millis, self._millis, is_sure=True)
        gone = (f"/var/log/{self._decisions.randint(0, 5)}",) * self._decisions.randint(0, 1)
        patterns = Patterns((folder,), ("*.tmp",)) if self._decisions.random() < 0.3 else NOT_KNOWN
        at = LookedAt(name, self._millis, 0, 0, {folder: stamp}, gone, patterns=patterns)
        self.journal.looked([at])

    def forget(self) -> None:
        if gone := [each for each in self.journal.sources if each.finished]:
            self.journal.forget(self._decisions.choice(gone).id)

    def choose_partition(self) -> None:
        index = self._decisions.randint(0, 2)
        self.journal.partition("views", f"id{index}", index, 8)

    def begin_partition(self) -> None:
        index = self._decisions.randint(0, 2)
        self.journal.begins(TopicPartition("views", index), index)


def main(directory: str, seed: str) -> None:
    journal, _ = open_journal(Path(directory), limit=LIMIT)
    acts = Acts(journal, Random(int(seed)))
    while True:
        acts.act()
        sys.stdout.write(".\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
