"""`python -m tests.campaigns NAME …`: campaigns that try to find what tests of parts do not.

Each runs seeds of trouble on real processes, keeps its own record of what happened, and judges what
came of it with rules of its own. docs/campaigns.md describes them.
"""

import importlib
import logging
import sys
from typing import Final

from tests.campaigns.command import Campaign, main

# The module that has each, and what it asks.
CAMPAIGNS: Final = {
    "witness": ("witness", "is the audit's verdict ever wrong?"),
    "attackers": ("attackers", "does a verdict hold against whoever may write?"),
    "restarts": ("restarts", "is a line lost by an agent that is restarted beside rotations?"),
    "journal": ("journal", "is an entry of systemd's journal lost without a statement, or double?"),
    "cluster": ("cluster", "does a cluster of brokers keep what it promises?"),
    "groups": ("groups", "do groups of consumers get what they are promised?"),
    "mirror": ("mirror", "is a copy in another cluster what its source is?"),
    "pipeline": ("pipeline", "does every line arrive, whoever fails, and is a lost one named?"),
    "soak": ("pipeline", "does anything grow in hours of the pipeline under faults?"),
}


def campaign(name: str) -> Campaign:
    module = importlib.import_module(f"tests.campaigns.{CAMPAIGNS[name][0]}.campaign")
    found: Campaign = module.CAMPAIGNS[name]
    return found


def _listed() -> str:
    lines = [f"  {name:<10} {about}" for name, (_, about) in CAMPAIGNS.items()]
    return "\n".join([__doc__ or "", *lines, "", "NAME --help says more of one."])


if __name__ == "__main__":
    name, *arguments = sys.argv[1:] or ["--help"]
    if name not in CAMPAIGNS:
        print(_listed())
        sys.exit(0 if name in {"--help", "-h"} else 2)
    # That ZooKeeper is away is no news here.
    logging.getLogger("cluster").addHandler(logging.NullHandler())
    sys.exit(main(campaign(name), arguments))
