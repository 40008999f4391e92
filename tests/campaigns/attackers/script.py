"""What happens in a run, beside an agent that ships one file:

write N    the application writes so many lines
shipped    waits until the agent has shipped all of them, and has said so in the ledger
forge N    a login with WRITE on the topic sends so many events with the source of the agent's
           file and its next numbers; what is sent says that it is forged
reforge N  the same, with the numbers of the last lines that were shipped
steal N    the same login sends a batch of so many events as the agent's producer, under its next
           sequence number
steal-beside N   the same, and other producers' records in the same minute
speak N    a login with WRITE on `_audit` writes so many entries under the next numbers of the
           agent's journal: it is done up to tomorrow
load       `penstock load`, once
"""

import random
from typing import Final

from tests.campaigns.script import Action, Actions, Script

_COUNT: Final = ("count",)
ACTIONS: Final[Actions] = {
    **dict.fromkeys(("write", "forge", "reforge", "steal", "steal-beside", "speak"), _COUNT),
    "shipped": (),
    "load": (),
}
ATTACKS: Final = ("forge", "reforge", "steal", "steal-beside", "speak")


def script_of(seed: int) -> Script:
    """All three logins at work, in any order; what a run attacks with first goes in turns."""
    chance = random.Random(seed)
    actions = [_some(chance, "write"), Action("shipped")]
    for at in range(chance.choice((1, 2, 2, 3))):
        attack = ATTACKS[seed % len(ATTACKS)] if not at else chance.choice(ATTACKS)
        actions.append(_some(chance, attack))
        if chance.random() < 0.3:
            actions.append(Action("load"))
        # A stolen batch is taken for the agent's next one if it is as large.
        same = attack.startswith("steal") and chance.random() < 0.7
        words = actions[-1].words or actions[-2].words
        actions.append(Action("write", words) if same else _some(chance, "write"))
        if chance.random() < 0.6:
            actions.append(Action("shipped"))
        if chance.random() < 0.3:
            actions.append(Action("load"))
    return Script(seed, tuple(actions))


def _some(chance: random.Random, verb: str) -> Action:
    return Action(verb, (str(chance.randint(1, 30)),))
