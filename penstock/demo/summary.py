"""What a demonstration came to, for whoever watched: a table, and a verdict in one line."""

from collections.abc import Iterator
from typing import Final

from penstock.demo.figures import Outcome, totals
from penstock.output import Row, one_line, print_table
from penstock.report_words import Count

_COLUMNS: Final = (
    *("topic", "lines", "events"),
    *("shipped", "stored", "mirrored", "landed", "verdict"),
)
_COUNTED: Final = ("lines", "events", "shipped", "stored", "landed")


def show_outcome(outcome: Outcome) -> None:
    """On stdout."""
    print_table(_COLUMNS, [*map(dict, _rows(outcome))])
    print()
    for each in outcome.differences:
        print(f"✗ {one_line(each)}")
    summed = totals(outcome.figures)
    killed = " and ".join(f"the {each}" for each in outcome.killed)
    if outcome.agrees:
        print(f"✓ Every line arrived, once{f', although {killed} were killed' if killed else ''}:")
        print(
            f"  {summed['lines']:,} lines of {summed['files']:,} files became {summed['events']:,} "
            f"events, and as many rows."
        )
    else:
        print("✗ Not every line arrived once.")


def _rows(outcome: Outcome) -> Iterator[Row]:
    for each in outcome.figures:
        verdict = each.verdict
        yield {
            "topic": each.topic,
            "lines": Count(each.tally.lines),
            "events": Count(each.tally.events),
            "shipped": Count(each.shipped),
            "stored": Count(each.stored.events),
            "mirrored": each.mirrored,
            "landed": Count(each.landed.events),
            "verdict": verdict.value if verdict else None,
        }
    summed = totals(outcome.figures)
    yield {
        "topic": "all",
        **{name: Count(summed[name]) for name in _COUNTED},
        "mirrored": None,
        "verdict": None,
    }
