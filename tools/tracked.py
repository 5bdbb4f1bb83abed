"""What goes into the course's wheel: what git knows of it (hatchling calls this, named in brrr_course/pyproject.toml).

A class's answers, tokens and own recordings may lie in any of these folders; they stay where they are.
"""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED = ("LICENSE", "data", "docs", "notebooks")
"""Outside the package's folder: they go into its folder `share`."""


class Tracked(BuildHookInterface):
    """Chooses the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name each file and its place; an editable installation is a line in a .pth file and holds none."""
        if version == "editable":
            return
        for name in tracked(root := Path(self.root).parent):
            place = name if name.startswith("brrr_course/") else f"brrr_course/share/{name}"
            build_data["force_include"][str(root / name)] = place


def tracked(root: Path) -> list[str]:
    """The files of the wheel by their paths in the repository; SystemExit where git knows none."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", "brrr_course", *SHARED]
    try:
        told = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{root}: no git tells which files are the course's ({error}). Build in a clone") from None
    apart = ("", "brrr_course/pyproject.toml")
    return [name for name in told.split("\0") if name not in apart and (root / name).is_file()]
