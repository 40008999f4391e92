"""Compiles the modules in C (`SOURCES`) when Penstock is installed or its wheel is built.

It needs a C compiler and Python's headers. Without them, or if it fails, the install goes on: the
broker then looks through records and flushes many logs in a slower way, agents split and frame
lines in one, loads and the audit read what was written in one, and each says so when it starts. For
an editable install a module lies beside its source, in a wheel where its folder lies; such a wheel
is one of this platform. `python hatch_build.py` compiles in place.
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

SOURCES = (
    "wire/_records.c",
    "broker/storage/segments/_many_files.c",
    "columns/_avro_columns.c",
    "agent/encoding/lines/_line_splitting.c",
    "agent/encoding/events/_iso_times.c",
    "agent/encoding/batches/_record_framing.c",
    "agent/encoding/bodies/_json_bodies.c",
)
_ROOT = Path(__file__).resolve().parent
_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
_OPTIONS = ("-O3", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden")


def compile_module(source: Path, folder: Path) -> tuple[Path | None, str]:
    """The module, made in `folder`, or None; and what the compiler said."""
    module = folder / f"{source.stem}{_SUFFIX}"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = {f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")}
    try:
        # Moved to its place when it is whole: a running broker may have the old one in its memory.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as beside:
            made = Path(beside) / module.name
            command = [*compiler, *_OPTIONS, *sorted(headers), str(source), "-o", str(made)]
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
        for source in SOURCES:
            beside = (_ROOT / source).parent
            module, said = compile_module(
                _ROOT / source, beside if editable else Path(self._folder.name)
            )
            if module is None:
                self.app.display_warning(
                    f"{source} is not compiled, so what it does is done in a slower way. It needs "
                    f"a C compiler and Python's headers:\n{said}"
                )
            elif not editable:
                there = f"penstock/programs/{Path(source).parent}/{module.name}"
                build_data["force_include"][str(module)] = there
                build_data["pure_python"] = False
                build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()


if __name__ == "__main__":
    for name in SOURCES:
        made, why = compile_module(_ROOT / name, (_ROOT / name).parent)
        if why:
            print(why, file=sys.stderr)
        if made is None:
            raise SystemExit(f"{name} could not be compiled")
        print(made)
