"""What a broker says over HTTP of what it has lost, and of what it cannot serve.

Kafka's protocol has no word for messages that were acknowledged and are gone, and a broker that has
lost some serves the others: its `/readyz` says yes, and what is wrong in lines of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.http_address import HttpAddress, http_address
from penstock.standing.http_conversation import HttpConversation, NoAnswer

_PAGE: Final = "/readyz"
_READY: Final = "ready"

Remarks = Mapping[str, Sequence[str]]  # by address, as brokers make them


class AskingBrokerPages:
    """One thread at a time."""

    def __init__(self, at: HttpAddress, *, within: float) -> None:
        self._within = within
        self._conversation = HttpConversation(at)

    def close(self) -> None:
        self._conversation.close()

    def ask(self) -> Sequence[str]:
        """A line for each thing that is wrong. Raises NoAnswer."""
        body = self._conversation.get(_PAGE, within=self._within)
        first, *remarks = body.decode(errors="replace").splitlines() or [""]
        if first != _READY:
            raise NoAnswer("what answers is no broker of this release")
        return remarks


def page_addresses(urls: str) -> list[HttpAddress]:
    """Of brokers, separated by commas; an empty text is nobody's. Raises ValueError."""
    named = (each.strip() for each in urls.split(","))
    return [http_address(each) for each in dict.fromkeys(named) if each]
