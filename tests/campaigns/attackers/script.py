"""What happens in a run, beside an agent that ships one file:

write N    the application writes so many lines
shipped    waits until the agent has shipped all of them, and has said so in the ledger
load       `penstock load`, once

A login with WRITE on the topic

forge N    sends so many events with the source of the agent's file and its next numbers; what is
           sent says that it is forged
reforge N  the same, with the numbers of the last lines that were shipped
steal N    sends a batch of so many events as the agent's producer, under its next sequence number
steal-beside N   the same, and other producers' records in the same minute

A login with WRITE on `_audit`

speak N    writes so many entries under the next numbers of the agent's journal, without a
           signature: it is done up to tomorrow
intrude N  the same, signed with a key of its own
claim N    forges events, and claims in a journal of its own that it has shipped them
accept     accepts, as an operator, whatever is wrong with the topic
retire     retires the agent's host

The broker, of the next batch of N lines

store-altered, store-reordered, store-dropped N    stores it with another byte, with its records in
           another order, or not at all
store-alike N      stores it with another byte and the CRC that the agent has computed
store-repeated, store-invented N    stores it twice, or further events behind it
store-overruled N  stores it altered, and says under a higher leader epoch that it is the agent's
show-altered, show-reordered, show-dropped, show-repeated, show-invented N    stores it, and shows
           loads another with the same CRC: with another byte, its records in another order, none,
           those of the batch before, other events
show-restated N    the same as show-altered; and a journal of the attacker's own has its digest
show-unstated N    the same as show-altered; and loads see no entry of the agent's
show-untold N      the same as show-altered; and the audit sees no entry that says what loads saw

The broker, of the agent's next entries, to the audit alone, while the application writes N lines

entries-hidden, entries-altered, entries-repeated, entries-reordered, entries-invented N
"""

import random
from typing import Final

from tests.campaigns.attackers.judging import KINDS
from tests.campaigns.script import Action, Actions, Script

WITHOUT_COUNT: Final = ("accept", "retire")
ATTACKS: Final = tuple(KINDS)
_COUNT: Final = ("count",)
ACTIONS: Final[Actions] = {
    "write": _COUNT,
    "shipped": (),
    "load": (),
    **{verb: () if verb in WITHOUT_COUNT else _COUNT for verb in ATTACKS},
}


def script_of(seed: int) -> Script:
    """All attackers at work, in any order; what a run attacks with first goes in turns. The entries
    of a journal are lied about once in a run."""
    chance = random.Random(seed)
    actions = [_some(chance, "write"), Action("shipped")]
    left = list(ATTACKS)
    for at in range(chance.choice((1, 2, 2, 3))):
        attack = ATTACKS[seed % len(ATTACKS)] if not at else chance.choice(left)
        if attack.startswith("entries"):
            left = [verb for verb in left if not verb.startswith("entries")]
        actions.append(_some(chance, attack))
        words = actions[-1].words
        if chance.random() < 0.3:
            actions.append(Action("load"))
        # A stolen batch is taken for the agent's next one if it is as large.
        same = attack.startswith("steal") and chance.random() < 0.7
        actions.append(Action("write", words) if same else _some(chance, "write"))
        if chance.random() < 0.6:
            actions.append(Action("shipped"))
        if chance.random() < 0.3:
            actions.append(Action("load"))
    return Script(seed, tuple(actions))


def _some(chance: random.Random, verb: str) -> Action:
    count = chance.randint(1, 30)
    return Action(verb, () if verb in WITHOUT_COUNT else (str(count),))
