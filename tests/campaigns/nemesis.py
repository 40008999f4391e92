"""Does what a script says, one action after the other.

A campaign's nemesis has a table of what each verb does, and says what must not happen meanwhile. An
action that makes no sense where it stands (to start what runs, to kill what is dead) does nothing.
"""

import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.processes.server_process import ServerFailed
from tests.campaigns.history import Done, Notes, Trouble
from tests.campaigns.outcomes import Say
from tests.campaigns.script import Action

STOPS: Final = 60.0
Acts = Mapping[str, Callable[..., object]]


class Nemesis(ABC):
    def __init__(self, notes: Notes, seed: int, say: Say = lambda _: None) -> None:
        self.notes, self.seed, self.say = notes, seed, say
        self.chance = random.Random()  # of the action that is under way

    @property
    @abstractmethod
    def acts(self) -> Acts:
        """What each verb does, with the words that follow it: numbers, where they are."""

    @abstractmethod
    def look(self) -> None:
        """Notes who has ended by itself."""

    def play(self, actions: Iterable[Action]) -> None:
        for number, action in enumerate(actions):
            self.say(str(action))
            self.chance = random.Random(f"{self.seed} {number} {action}")
            self.act(action)
            self.notes.note(Done(str(action)))
            self.look()

    def act(self, action: Action) -> None:
        self.acts[action.verb](*map(_value, action.words))

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            self.look()

    def trouble(self, words: str, rule: str = "trouble") -> None:
        self.notes.note(Trouble(f"{rule}: {words}"))

    def stop(self, who: str, stop: Callable[[], int], *, excused: bool = False) -> None:
        """It must end well, and in time."""
        try:
            code = stop()
        except ServerFailed:
            if not excused:
                self.trouble(f"{who} did not stop within {STOPS:g} s")
        else:
            # It may just have been started: nobody hears a signal before it listens for one.
            if code not in {0, -signal.SIGTERM} and not excused:
                self.trouble(f"{who} stopped with {code}")


def _value(word: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
