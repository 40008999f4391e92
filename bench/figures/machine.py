"""A description of the machine that measures."""

import os
import platform
import shutil
import subprocess
from pathlib import Path


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{pages / 2**30:.0f} GiB"


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "none"
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if run.returncode:
        return "unknown"
    return (run.stdout + run.stderr).strip().partition("\n")[0]


def congestion_control() -> str:
    """Returns TCP's default congestion control."""
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def commit() -> str:
    """Returns this repository's commit and its date, and says whether tracked files have changed
    since."""
    git = ("git", "-C", str(Path(__file__).resolve().parents[2]))
    name = _first_line(*git, "log", "-1", "--format=%h of %cs")
    changes = _first_line(*git, "status", "--porcelain", "--untracked-files=no")
    return f"{name}, changed" if changes not in {"", "none", "unknown"} else name


def description(directory: Path) -> dict[str, str]:
    """Returns cores, memory, kernel, file system and versions as short texts."""
    file_system = _first_line(
        "findmnt", "--noheadings", "--output", "FSTYPE", "--target", str(directory)
    )
    return {
        "cores": f"{os.cpu_count()} ({_cpu()})",
        "memory": _memory(),
        "kernel": platform.release(),
        "congestion control": congestion_control(),
        "file system": file_system,
        "Python": platform.python_version(),
        "Java": _first_line("java", "-version"),
        "load at start": f"{os.getloadavg()[0]:.2f}",
    }
