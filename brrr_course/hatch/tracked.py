"""What goes into the course's wheel and sdist: what git knows of it (hatchling calls this, named in ../pyproject.toml).

A class's answers, tokens and own recordings may lie in any of these folders; they stay where they are. The sdist holds
each file at its place in the wheel, so that a wheel is built of it without git.
"""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED = ("LICENSE", "data", "docs", "notebooks")
"""Outside the package's folder: they go into its folder `share`."""

HOOK = "hatch/tracked.py"
APART = tuple(f"brrr_course/{name}" for name in ("pyproject.toml", "README.md", HOOK))
"""What builds."""
GIVEN = ("data/recordings/h200/peaks.json", "data/recordings/h200/sweeps.npz")
"""What brrr-gpu brings, without which the course is not installed."""


class Tracked(BuildHookInterface[Any]):
    """Chooses the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name each file and its place; an editable installation is a line in a .pth file and holds none."""
        if version == "editable":
            return
        root = Path(self.root)
        build_data["force_include"] |= unpacked(root) if (root / "PKG-INFO").is_file() else tracked(root.parent)
        if self.target_name == "sdist":
            build_data["force_include"][str(root / HOOK)] = HOOK


def unpacked(root: Path) -> dict[str, str]:
    """The files of an unpacked sdist, and their places."""
    files = (path for path in sorted((root / "brrr_course").rglob("*")) if path.is_file())
    return {str(path): path.relative_to(root).as_posix() for path in files}


def tracked(root: Path) -> dict[str, str]:
    """The files of a clone, and their places; SystemExit where git knows none."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", "brrr_course", *SHARED]
    try:
        told = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
    except (OSError, subprocess.SubprocessError) as error:
        raise SystemExit(f"{root}: no git tells which files are the course's ({error}). Build in a clone") from None
    names = [name for name in told.split("\0") if name and name not in APART + GIVEN and (root / name).is_file()]
    return {
        str(root / name): name if name.startswith("brrr_course/") else f"brrr_course/share/{name}" for name in names
    }
