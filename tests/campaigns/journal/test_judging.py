"""The judge of the campaign finds each rule that is broken, in runs that are wrong on purpose."""

import pytest

from tests.campaigns.journal.judging import End, Statement, Written, judge

ALL = ("0 a", "1 \ufffdx", "2 c")


def end(*messages: str, stated: str = "", numbered: bool = True, damaged: bool = False) -> End:
    """A run of three entries, number 1,000 to 1,002 at 5 to 7 ms; `stated` about 6 to 7 ms."""
    written = [
        Written(message, (1000 + index) * numbered, (5 + index) * 1000, damaged)
        for index, message in enumerate(("0 a", "1 ", "2 c"))
    ]
    statements = [Statement(6, 7, stated)] if stated else []
    return End(written=written, messages=messages, statements=statements)


@pytest.mark.parametrize(
    ("run", "broken"),
    [
        (end(*ALL), []),
        (end("0 a"), ["unnamed"]),
        (end("0 a", stated="2 entries were gone (numbers 1,001 to 1,002)"), []),
        (end("0 a", stated="1 entry was gone (number 1,001)"), ["unnamed"]),
        (end("0 a", stated="how many are gone is unknown", numbered=False), []),
        (end("2 c", stated="how many are gone is unknown", numbered=False), ["unnamed"]),
        (end("0 a", numbered=False, damaged=True), []),
        (end("0 a", damaged=True), ["unnamed"]),
        (end(*ALL, ALL[2]), ["double"]),
        (end(*ALL[:2], "2 cut"), ["changed"]),
        (end(*ALL, "another"), ["changed"]),
        (end(*reversed(ALL)), ["disordered"]),
        (end(*ALL, stated="1 entry was gone (number 1,001)"), ["false loss"]),
    ],
)
def test_each_rule_is_held(run: End, broken: list[str]) -> None:
    assert [objection.rule for objection in judge(run)] == broken
