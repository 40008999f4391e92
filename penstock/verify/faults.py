"""What can be wrong with certified tables, and the verdicts that follow.

    WHOLE            every hour is as the audit and the loader have signed it
    ALTERED          something was changed, removed, added or put back
    NOT_COMPLETE     nothing was altered, but hours are missing or open
    NOT_CERTIFIED    complete hours have no certificate
    NOT_VERIFIABLE   a key is missing, or something cannot be read

The values are exit codes, as those of `penstock report`. If several apply, the first of ALTERED,
NOT_VERIFIABLE, NOT_CERTIFIED and NOT_COMPLETE is the verdict.

Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum
from typing import Final

import msgspec

MOST_OF_A_KIND: Final = 1000  # faults that are kept; all are counted


class Verdict(IntEnum):
    WHOLE = 0
    ALTERED = 1
    NOT_COMPLETE = 2
    NOT_CERTIFIED = 3
    NOT_VERIFIABLE = 4

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


_WORST_FIRST: Final = (
    Verdict.ALTERED,
    Verdict.NOT_VERIFIABLE,
    Verdict.NOT_CERTIFIED,
    Verdict.NOT_COMPLETE,
)


class Kind(Enum):
    """The kinds of faults: a name, the verdict, and what to do."""

    CHANGED_FILE = (
        "changed file",
        Verdict.ALTERED,
        "Rebuild the hour with `penstock load --rebuild`, or restore the file from a copy.",
    )
    MISSING_FILE = (
        "missing file",
        Verdict.ALTERED,
        "Rebuild the hour with `penstock load --rebuild`, or restore the file from a copy.",
    )
    UNLISTED_FILE = (
        "unlisted file",
        Verdict.ALTERED,
        "If rows came late, the next load certifies the hour again; otherwise somebody has put the "
        "file there: remove it.",
    )
    WRONG_ROWS = (
        "wrong number of rows",
        Verdict.ALTERED,
        "The loader that signed this certificate is not to be trusted: compare its version.",
    )
    DAMAGED_HOUR = (
        "damaged hour",
        Verdict.ALTERED,
        "A load has replaced _SUCCESS by _DAMAGED, which says why and names the cure.",
    )
    BAD_CERTIFICATE = (
        "unreadable certificate",
        Verdict.ALTERED,
        "Restore it from a copy; its content cannot be reconstructed.",
    )
    WRONG_SIGNATURE = (
        "wrong signature",
        Verdict.ALTERED,
        "The certificate was changed after it was signed: restore it from a copy.",
    )
    MISSING_SIGNATURE = (
        "missing signature",
        Verdict.ALTERED,
        "The signature was removed, or never made: restore the certificate from a copy.",
    )
    UNKNOWN_KEY = (
        "unknown key",
        Verdict.NOT_VERIFIABLE,
        "If the key was replaced, get its public part from who runs the audit or the loader, not "
        "from where the tables are, and add it to the folder of keys; otherwise the certificate is "
        "forged.",
    )
    MISPLACED = (
        "misplaced certificate",
        Verdict.ALTERED,
        "The certificate was moved here, or the folder was renamed: restore it from a copy.",
    )
    CONTRADICTION = (
        "contradictory certificate",
        Verdict.ALTERED,
        "The programs that signed this certificate are not to be trusted: compare their versions.",
    )
    MISSING_NUMBER = (
        "missing certificate",
        Verdict.ALTERED,
        "Restore it from a copy. If a load has just rewritten an hour, the next one certifies it "
        "again. If PATH is only a part of the table, or old hours were deleted, pass "
        "--allow-missing.",
    )
    REPEATED_NUMBER = (
        "repeated number",
        Verdict.ALTERED,
        "One of the certificates was not made by the loader of this table, or two loaders had "
        "different states of it.",
    )
    BROKEN_CHAIN = (
        "broken chain",
        Verdict.ALTERED,
        "One of the two certificates is not the one that was in the chain: compare with a copy.",
    )
    NO_NEWEST = (
        "missing newest certificate",
        Verdict.ALTERED,
        "Without it, nothing shows whether the newest certificates were removed. Copy _penstock, "
        "too; or pass --allow-missing.",
    )
    OLD_NEWEST = (
        "outdated newest certificate",
        Verdict.NOT_COMPLETE,
        "A load is at work or was interrupted, and the next load writes it; or somebody has put an "
        "older one back.",
    )
    MISSING_HEADS = (
        "missing heads file",
        Verdict.ALTERED,
        "It shows which agents' statements the hour rests on. Copy _penstock, too, or restore the "
        "file from a copy; or pass --allow-missing.",
    )
    CHANGED_HEADS = (
        "changed heads file",
        Verdict.ALTERED,
        "It was changed after it was certified: restore it from a copy.",
    )
    MISSING_HEAD = (
        "missing head",
        Verdict.ALTERED,
        "Somebody has left the statements of a host out, or removed its head: ask who runs the "
        "audit. Take the key of a host that ships no more out of the folder of keys.",
    )
    WRONG_HEAD = (
        "wrong head",
        Verdict.ALTERED,
        "The agent has not signed what the heads file says of it, or not for the whole hour: ask "
        "who runs the audit.",
    )
    UNKNOWN_AGENT = (
        "unknown agent",
        Verdict.NOT_VERIFIABLE,
        "If the host is new, or has a new key, get its public key from who runs it, and add it to "
        "the folder of keys; otherwise somebody has signed in its place.",
    )
    ROLLED_BACK = (
        "rollback",
        Verdict.ALTERED,
        "An older state of the table was put back, or its history was replaced: compare with a "
        "copy.",
    )
    UNREADABLE = (
        "unreadable file",
        Verdict.NOT_VERIFIABLE,
        "Run the command as a user who may read it, on a copy if the disk fails.",
    )
    UNCERTIFIED = (
        "hour without certificate",
        Verdict.NOT_CERTIFIED,
        "The next load with an audit that signs certifies it; hours of tables that are older than "
        "certificates stay without: pass --allow-uncertified.",
    )
    OPEN_HOUR = (
        "open hour",
        Verdict.NOT_COMPLETE,
        "`penstock report` says what is missing.",
    )
    NO_HOUR = (
        "missing hour",
        Verdict.NOT_COMPLETE,
        "No statement says that it had no rows: its folder was deleted or not copied, or the hour "
        "is not complete.",
    )

    def __init__(self, title: str, verdict: Verdict, advice: str) -> None:
        self.title = title
        self.verdict = verdict
        self.advice = advice


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a table. Texts may have any characters."""

    kind: Kind
    path: str  # of the file or folder, below the root of the tables
    words: str  # what is wrong with it


class FaultList:
    """The faults of a table: all are counted, and the first of each kind are kept."""

    def __init__(self) -> None:
        self.counts: Counter[Kind] = Counter()
        self._kept: dict[Kind, list[Fault]] = {}

    def add(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.counts[fault.kind] += 1
            kept = self._kept.setdefault(fault.kind, [])
            if len(kept) < MOST_OF_A_KIND:
                kept.append(fault)

    def of(self, kind: Kind) -> Sequence[Fault]:
        return self._kept.get(kind, ())

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds that occur, in the order of the verdicts."""
        return sorted(self.counts, key=lambda kind: _WORST_FIRST.index(kind.verdict))

    @property
    def verdict(self) -> Verdict:
        return worst(kind.verdict for kind in self.counts)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Returns the verdict on all of them together."""
    occurring = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in occurring), Verdict.WHOLE)
