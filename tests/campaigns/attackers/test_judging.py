"""The judge of the campaign finds each rule that is broken, in runs that are wrong on purpose."""

import pytest

from tests.campaigns.attackers.judging import COLLISION, Attack, End, judge

FORGE = Attack("forge", True, ("missing", COLLISION))
STEAL = Attack("steal", True, ("changed",))


def end(*rows: str, state: str = "complete", **more: object) -> End:
    known: dict[str, object] = {"kinds": [], "dead": [], "waits": [], "attacks": []}
    return End(lines=["a", "b"], rows=rows, state=state, **known | more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "broken"),
    [
        (end("a", "b"), []),
        (end("a"), ["green"]),
        (end("a", "b", "b"), ["green"]),
        (end("a", "b", state="pending"), ["stuck"]),
        (end("a", "b", state="missing"), ["red"]),
        (end("a", "b", attacks=[FORGE]), ["named"]),
        (end("a", "b", attacks=[FORGE], dead=[COLLISION]), []),
        (end("a", attacks=[FORGE], kinds=["missing"], state="missing"), []),
        (end("a", attacks=[STEAL], state="pending"), []),
        (end("a", "b", attacks=[STEAL]), ["named"]),
    ],
)
def test_each_rule_is_held(run: End, broken: list[str]) -> None:
    assert [each.rule for each in judge(run)] == broken
