"""How far `penstock check-config` goes: `--offline`, nothing said, `--online`."""

from enum import Enum, auto


class Ask(Enum):
    """Whether servers are asked."""

    NOBODY = auto()
    WHO_ANSWERS = auto()
    ALL = auto()  # one who does not answer is a problem
