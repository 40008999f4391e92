"""Registers schemas all the while, at one registry and the other in turn: so many, and then those
again.

No registration is given up: it is tried, the same again, until a registry answers with an id. What
was answered is kept, and must be so for good.
"""

from collections.abc import Sequence
from typing import Final

from harness.penstock.registry import RegistryProcess
from tests.system.crash import Worker

SUBJECTS: Final = 3
_EVERY: Final = 0.5


class Registrant(Worker):
    def __init__(self, registries: Sequence[RegistryProcess], most: int) -> None:
        super().__init__("registrant")
        self.answered: list[tuple[int, int]] = []  # number of the schema, and its id
        self.tried_again = 0
        self._registries = registries
        self._most = most

    def work(self) -> None:
        number = 0
        attempts = 0
        known: set[tuple[int, int]] = set()
        while self._registries and not self._stop_asked.wait(_EVERY):
            registry = self._registries[attempts % len(self._registries)]
            attempts += 1
            answer = registry.register(subject_of(number), schema_of(number), timeout=10)
            if answer.status == 200:
                said = number, answer.body["id"]
                # Once more it must be the same; else it stands there twice, and is objected to.
                if said not in known:
                    known.add(said)
                    self.answered.append(said)
                number = (number + 1) % self._most
            elif answer.status in {0, 500, 503}:
                self.tried_again += 1
            else:
                raise AssertionError(f"schema {number} is refused: {answer}")


def subject_of(number: int) -> str:
    return f"registered-{number % SUBJECTS}"


def schema_of(number: int) -> dict[str, object]:
    """The same for the same number, and for no other; of a subject, each may follow the last."""
    field = {"name": f"f{number}", "type": "int", "default": number}
    return {"type": "record", "name": "Registered", "fields": [field]}
