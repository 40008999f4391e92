"""A script that went wrong, made short: actions are taken away as long as it goes wrong the same
way. Pure but for what it is given: who runs scripts, and who says that time is over.

Many candidates are run at once, each without one part of the actions. What could be left out by
itself is then left out together, if it still goes wrong; else only the largest part of it. When no
part can be left out, parts become smaller.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from tests.campaigns.script import Action, Script

MOST: Final = 16  # candidates of a round
GoesWrong = Callable[[Sequence[Script]], Sequence[bool]]


def shrink(script: Script, goes_wrong: GoesWrong, time_left: Callable[[], bool]) -> Script:
    """The shortest that was found."""
    alone = [each for each in script.actions if not each.shared]
    if len(alone) < len(script.actions) and goes_wrong([script.with_actions(alone)])[0]:
        script = script.with_actions(alone)  # it is not about what is shared
    parts = 2
    while time_left():
        private = [each for each in script.actions if not each.shared]
        if len(private) < 2:
            break
        parts = min(parts, len(private), MOST)
        bounds = [len(private) * number // parts for number in range(parts + 1)]
        chunks = [private[begin:end] for begin, end in pairwise(bounds)]
        wrong = goes_wrong([_without(script, each) for each in chunks])
        removable = [chunk for chunk, goes in zip(chunks, wrong, strict=True) if goes]
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


def _without(script: Script, left_out: Sequence[Action]) -> Script:
    """Actions are told apart by which they are, not by what they say."""
    gone = {id(each) for each in left_out}
    return script.with_actions([each for each in script.actions if id(each) not in gone])
