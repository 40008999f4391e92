"""A script that went wrong, made short: actions are taken away as long as it goes wrong the same
way. Pure but for what it is given: who runs scripts, and who says that time is over.

Many candidates are run at once, as a batch costs little more than one run: each lacks one part of
the actions. What could be left out by itself is then left out together, if it still goes wrong;
else only the largest part of it. When no part can be left out, parts become smaller.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from tests.witness.script import Action, Script

MOST: Final = 16  # candidates of a round


def shrink(
    script: Script,
    goes_wrong: Callable[[Sequence[Script]], Sequence[bool]],
    time_left: Callable[[], bool],
) -> Script:
    """The shortest that was found."""
    script = _without_events(script, goes_wrong)
    parts = 2
    while time_left():
        private = [each for each in script.actions if not each.shared]
        if len(private) < 2:
            break
        parts = min(parts, len(private), MOST)
        chunks = _chunks(private, parts)
        candidates = [_without(script, each) for each in chunks]
        removable = [
            chunk for chunk, wrong in zip(chunks, goes_wrong(candidates), strict=True) if wrong
        ]
        if removable:
            together = _without(script, [each for chunk in removable for each in chunk])
            largest = _without(script, max(removable, key=len))
            both = len(removable) > 1 and time_left() and goes_wrong([together])[0]
            script = together if both else largest
            parts = max(2, parts - len(removable))
        elif parts < min(len(private), MOST):
            parts = parts * 2
        else:
            break
    return script


def _without_events(
    script: Script, goes_wrong: Callable[[Sequence[Script]], Sequence[bool]]
) -> Script:
    """Without all that is shared, if that is not what it is about."""
    if not script.shared:
        return script
    alone = script.with_actions([each for each in script.actions if not each.shared])
    return alone if goes_wrong([alone])[0] else script


def _without(script: Script, left_out: Sequence[Action]) -> Script:
    """Actions are told apart by which they are, not by what they say."""
    gone = {id(each) for each in left_out}
    return script.with_actions([each for each in script.actions if id(each) not in gone])


def _chunks(actions: Sequence[Action], parts: int) -> list[Sequence[Action]]:
    bounds = [len(actions) * number // parts for number in range(parts + 1)]
    return [actions[begin:end] for begin, end in pairwise(bounds)]
