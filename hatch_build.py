"""Compiles `wire/_record_walk.c` when Penstock is installed or its wheel is built.

It needs a C compiler and Python's headers. Without them, or if it fails, the install goes on: the
broker then looks through records in a slower way, and says so when it starts. For an editable
install the module lies beside its source, in a wheel where `wire` lies; such a wheel is one of this
platform. `python hatch_build.py` compiles it in place.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = Path(__file__).resolve().parent / "wire" / "_record_walk.c"
_MODULE = "_record_walk" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")
_OPTIONS = ("-O3", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden")


def compile_module(folder: Path) -> tuple[Path | None, str]:
    """The module, made in `folder`, or None; and what the compiler said."""
    module = folder / _MODULE
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = {f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")}
    try:
        # Moved to its place when it is whole: a running broker may have the old one in its memory.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as beside:
            made = Path(beside) / _MODULE
            command = [*compiler, *_OPTIONS, *sorted(headers), str(_SOURCE), "-o", str(made)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode == 0:
                made.replace(module)
                return module, ended.stderr.strip()
        module.unlink(missing_ok=True)  # of an older source
    except OSError as error:
        return None, str(error)
    return None, ended.stderr.strip()


class CustomBuildHook(BuildHookInterface[Any]):
    """Found by hatchling: `[tool.hatch.build.targets.wheel.hooks.custom]`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        editable = version == "editable"
        if not editable:
            self._folder = tempfile.TemporaryDirectory()
        module, said = compile_module(_SOURCE.parent if editable else Path(self._folder.name))
        if module is None:
            self.app.display_warning(
                "wire/_record_walk.c is not compiled, so brokers will look through records in a "
                f"slower way. It needs a C compiler and Python's headers:\n{said}"
            )
        elif not editable:
            build_data["force_include"][str(module)] = f"penstock/programs/wire/{module.name}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()


if __name__ == "__main__":
    made, why = compile_module(_SOURCE.parent)
    if why:
        print(why, file=sys.stderr)
    if made is None:
        raise SystemExit("wire/_record_walk.c could not be compiled")
    print(made)
