"""One request on its way to what answers it."""

from collections.abc import Mapping
from dataclasses import dataclass

from registry.contents import RegistryContents
from registry.http.messages import HttpRequest
from registry.http.parameters import new_subject_name, subject_name
from registry.registry import Registry


@dataclass(frozen=True, slots=True)
class Call:
    """`path` holds what stood in the path where its pattern has names."""

    registry: Registry
    request: HttpRequest
    path: Mapping[str, str]

    @property
    def contents(self) -> RegistryContents:
        return self.registry.contents

    @property
    def subject(self) -> str:
        return subject_name(self.path["subject"])

    @property
    def subject_or_all(self) -> str | None:
        """Of a setting: a subject's own, or with None that of all."""
        return subject_name(self.path["subject"]) if self.path.get("subject") else None

    @property
    def new_subject(self) -> str:
        """The same as `subject`, if it may be written."""
        return new_subject_name(self.path["subject"])

    @property
    def new_subject_or_all(self) -> str | None:
        return new_subject_name(self.path["subject"]) if self.path.get("subject") else None
