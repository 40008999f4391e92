"""Keeps the schemas of an agent's topics: loads cached schemas at the start, and updates them.

Rule 1: a known schema stays in use if the registry is down, the subject was deleted, or a new
version is not an event schema; a warning has the reason.

Rule 2: Penstock's own schemas are looked up once, since their ids never change. A topic's own
schema is looked up again every `interval`, and missing schemas sooner.

Rule 3: a separate thread asks the registry. Any thread can read the known schemas at any time,
without waiting; `tell` is called on the asking thread after a change.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from agent.configuration.inputs import Input
from agent.encoding.topic_schemas.cache import read_cache, write_cache
from agent.encoding.topic_schemas.registry_lookup import find, register_files
from agent.encoding.topic_schemas.values import (
    LEDGER_SCHEMA,
    TopicPurpose,
    TopicSchema,
    dead_letters_of,
    wanted_by,
    wanted_for,
)
from agent.errors import NoSchema
from schemas.errors import RegistryError, RegistryRefused
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from schemas.remote.urls import parse_urls

ASKED_EVERY_SECONDS: Final = 60.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 15.0
_LONGER: Final = 1.25  # registry and agents may start together: a schema comes within seconds
_ATTEMPT_SECONDS: Final = 5.0
_TOO_MANY_REQUESTS: Final = 429
_WAITING: Final = "waiting for its schema"

log = logging.getLogger(__name__)


class TopicSchemas:
    """The schemas of an agent. `want` sets the inputs, at the start and at each change.

    The thread ends within a few seconds of `close`, with its current request.
    """

    def __init__(
        self,
        registry: str | RegistryAddress,
        directory: Path,
        *,
        auto_register: bool = False,
        ledger: bool = True,
        interval: float = ASKED_EVERY_SECONDS,
        attempt_seconds: float = _ATTEMPT_SECONDS,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        self._urls = tuple(str(url) for url in parse_urls(RegistryAddress.of(registry).urls))
        self._registry = RegistryClient(
            registry, patience_seconds=0, attempt_seconds=attempt_seconds
        )
        self._directory = directory
        self._auto_register = auto_register
        self._ledger = ledger
        self._interval = interval
        self._tell = tell
        self._wanted: Mapping[TopicPurpose, tuple[str, ...]] = {}
        self._known = read_cache(directory, self._urls)
        self._problems: dict[TopicPurpose, str] = {}
        self._trouble = ""
        self._pause = _FIRST_PAUSE
        self._closing = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schemas", daemon=True)

    def want(self, inputs: Iterable[Input]) -> None:
        self._wanted = wanted_by(inputs, ledger=self._ledger)
        self._wake.set()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._registry.close()

    # Known schemas

    def of(self, input_: Input) -> TopicSchema | None:
        """The schema for the events of an input; None while unknown."""
        return self._known.get(wanted_for(input_))

    def dead_letters(self, topic: str) -> TopicSchema | None:
        """The schema for the dead letters of a topic; None while unknown."""
        return self._known.get(dead_letters_of(topic))

    @property
    def ledger(self) -> TopicSchema | None:
        return self._known.get(LEDGER_SCHEMA)

    def missing(self, input_: Input) -> str:
        """Why the input has no schema yet; empty if it has one."""
        for purpose in (wanted_for(input_), dead_letters_of(input_.topic)):
            if purpose not in self._known:
                return self._problems.get(purpose) or self._trouble or _WAITING
        return ""

    def problem(self, input_: Input) -> str:
        """Why the registry has no schema for the input; empty if it has one, or has not
        answered."""
        purposes = (wanted_for(input_), dead_letters_of(input_.topic))
        missing_problems = (
            self._problems.get(key, "") for key in purposes if key not in self._known
        )
        return next(missing_problems, "")

    def warning(self, input_: Input) -> str:
        """A problem of an input that has a schema; empty if there is none."""
        purpose = wanted_for(input_)
        return self._problems.get(purpose, "") if purpose in self._known else ""

    @property
    def trouble(self) -> str:
        """Why the registry is not reachable; empty while it is."""
        return self._trouble

    # The asking thread

    def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            self._wake.wait(self._ask_for_all())

    def _ask_for_all(self) -> float:
        """Looks up all schemas that are due. Returns the seconds until the next time."""
        previous = (dict(self._known), dict(self._problems))
        try:
            for purpose, files in self._wanted.items():
                if self._closing:
                    return 0
                if purpose not in self._known or purpose.may_change:
                    self._ask_for(purpose, files)
        except RegistryError as error:
            self._unanswered(str(error))
        else:
            self._answered()
        if self._known != previous[0]:
            self._keep()
        if (self._known, self._problems) != previous:
            self._tell()
        if all(purpose in self._known for purpose in self._wanted) and not self._trouble:
            self._pause = _FIRST_PAUSE
            return self._interval
        pause = min(self._pause, self._interval)
        self._pause = min(_LONGEST_PAUSE, self._pause * _LONGER)
        return pause

    def _ask_for(self, wanted: TopicPurpose, files: tuple[str, ...]) -> None:
        problem = ""
        try:
            if self._auto_register:
                problem = _why_not_registered(self._registry, wanted, files)
            schema = find(self._registry, wanted, self._known.get(wanted))
        except (NoSchema, RegistryRefused) as error:
            if isinstance(error, RegistryRefused) and _passes(error):
                raise
            problem = problem or str(error)
        else:
            self._take(wanted, schema)
        self._note(wanted, problem)

    def _take(self, wanted: TopicPurpose, schema: TopicSchema) -> None:
        if schema == self._known.get(wanted):
            return
        log.info("using schema topic=%s version=%d id=%d", schema.topic, schema.version, schema.id)
        self._known = {**self._known, wanted: schema}

    def _note(self, wanted: TopicPurpose, problem: str) -> None:
        """Logs a problem when it begins, changes and ends."""
        if problem == self._problems.get(wanted, ""):
            return
        if problem:
            log.warning("schema topic=%s %s", wanted.topic, problem)
            self._problems = {**self._problems, wanted: problem}
        else:
            log.info("schema problem solved topic=%s", wanted.topic)
            self._problems = {
                key: other_problem for key, other_problem in self._problems.items() if key != wanted
            }

    def _unanswered(self, why: str) -> None:
        if not self._trouble:
            log.warning("registry not reachable, retrying error=%s", why)
        self._trouble = why

    def _answered(self) -> None:
        if self._trouble:
            log.info("registry reachable again")
        self._trouble = ""

    def _keep(self) -> None:
        """Writes the cache. If the disk is full, the next start asks the registry."""
        try:
            write_cache(self._directory, self._urls, self._known)
        except OSError as error:
            log.warning("cannot cache schemas path=%s error=%s", self._directory, error)


def _passes(error: RegistryRefused) -> bool:
    return error.status >= 500 or error.status == _TOO_MANY_REQUESTS


def _why_not_registered(
    registry: RegistryClient, wanted: TopicPurpose, files: tuple[str, ...]
) -> str:
    """Registers files. Returns the reason if one was rejected, which does not matter if the topic
    has a schema."""
    try:
        register_files(registry, wanted, files)
    except NoSchema as error:
        return str(error)
    return ""
