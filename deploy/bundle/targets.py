"""The targets of a release: processors, Python versions, and the wheels that fit them. Pure."""

from typing import Final

import msgspec
from packaging.tags import Tag, compatible_tags, cpython_tags

GLIBC: Final = (2, 28)  # the oldest supported: RHEL 8, Debian 10
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
BUNDLED_PYTHON: Final = "3.13"  # the version in debian-packages.lock


class Processor(msgspec.Struct, frozen=True):
    """A processor architecture's names in Linux, Debian and ELF headers."""

    name: str
    debian: str
    loader: str  # the dynamic loader of its glibc
    elf_machine: int


PROCESSORS: Final = {
    "x86_64": Processor("x86_64", "amd64", "ld-linux-x86-64.so.2", 62),
    "aarch64": Processor("aarch64", "arm64", "ld-linux-aarch64.so.1", 183),
}


class Target(msgspec.Struct, frozen=True):
    processor: Processor
    python: str

    @property
    def tag(self) -> str:
        """The Python tag of wheels, such as `py311`."""
        return "py" + self.python.replace(".", "")

    def platforms(self) -> list[str]:
        """The platform tags of wheels that run on `GLIBC`, best first."""
        oldest_minor = 17 if self.processor.name == "aarch64" else 5
        manylinux = [f"manylinux_2_{minor}" for minor in range(GLIBC[1], oldest_minor - 1, -1)]
        legacy_platforms = ["manylinux2014"]
        if self.processor.name == "x86_64":
            legacy_platforms += ["manylinux2010", "manylinux1"]
        return [f"{platform}_{self.processor.name}" for platform in (*manylinux, *legacy_platforms)]

    def tags(self) -> dict[Tag, int]:
        """The rank of each wheel tag that fits; 0 is the best."""
        version = tuple(map(int, self.python.split(".")))
        name = "cp" + self.python.replace(".", "")
        own_tags = cpython_tags(version, [name], self.platforms())
        return {
            tag: rank
            for rank, tag in enumerate(
                (*own_tags, *compatible_tags(version, name, self.platforms()))
            )
        }

    def markers(self) -> dict[str, str]:
        """The environment for requirements' markers (`; python_version < "3.12"`). Its full version
        is the first patch release, so that the wheelhouse has what every patch release needs."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.processor.name,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }
