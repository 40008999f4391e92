"""What came of mutants, as a table, and against what came of them before."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from tests.mutants.drawing import Mutant


class Verdict(StrEnum):
    """Whether the tests notice."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    GONE = "gone"  # the code there has changed: nothing was run


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a mutant."""

    mutant: Mutant
    verdict: Verdict
    passed: int = 0  # tests
    seconds: float = 0.0
    caught_by: str = ""  # the test, or the error
    time_over: bool = False  # there were more tests

    def __str__(self) -> str:
        mutant = self.mutant
        change = f"{mutant.before!r} -> {mutant.after!r}" if mutant.before else mutant.after
        words = f"{self.verdict:<8} {mutant.path}:{mutant.line} {mutant.kind}: {change}"
        if self.verdict is Verdict.GONE:
            return f"{words}, in: {mutant.text}"
        over = ", time over" if self.time_over else ""
        by = f", by {self.caught_by}" if self.caught_by else ""
        return f"{words}; {self.passed} passed in {self.seconds:.0f} s{over}{by}"


def package(path: str) -> str:
    return path.partition("/")[0]


def table(outcomes: Sequence[Outcome]) -> str:
    """Packages by verdict."""
    rows = [("", *Verdict, "time over")]
    packages = sorted({package(each.mutant.path) for each in outcomes})
    for name in [*packages, "all"]:
        counted = [each for each in outcomes if name in {"all", package(each.mutant.path)}]
        counts = Counter(each.verdict for each in counted)
        over = sum(each.time_over for each in counted)
        rows.append((name, *(str(counts[each]) for each in Verdict), str(over)))
    return "\n".join(f"{name:<18}" + "".join(f"{each:>11}" for each in row) for name, *row in rows)


def losses(before: Sequence[Outcome], now: Sequence[Outcome]) -> Iterator[str]:
    """What was caught before, of the mutants of now, and is not any more."""
    caught = {each.mutant.identity: each for each in before if each.verdict is Verdict.CAUGHT}
    for each in now:
        earlier = caught.get(each.mutant.identity)
        if earlier and each.verdict is not Verdict.CAUGHT:
            yield f"was caught by {earlier.caught_by}: {each}"
