"""Files that replace what an earlier build wrote, and nothing else: a list beside them tells which are whose.

The list has a line for each file, as `sha256sum` prints them: what was changed since is no longer the build's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from brrr.core.errors import ArgumentError
from brrr.core.files import file_bytes, require_writable, write_atomically

LIST, LINE = ".brrr-site.sha256", re.compile("[0-9a-f]{64}  .+")


def require_free(out: Path, names: Iterable[str]) -> set[str]:
    """The lines of the folder's list; ArgumentError where a file of such a name lies there that is none of ours."""
    require_writable(out)
    lines = set((out / LIST).read_text("utf-8", "replace").splitlines()) if (out / LIST).is_file() else set()
    foreign = [LIST] if (out / LIST).is_symlink() or not all(map(LINE.fullmatch, lines)) else []
    for name in (*foreign, *(each for each in names if not _is_ours(out, each, lines))):
        hint = "Move it away, or choose another folder"
        raise ArgumentError("brrr site", "DIR", str(out), f"a folder whose {name} an earlier build wrote", hint)
    return lines


def replace_all(out: Path, content: Mapping[str, bytes], *, alone: bool = True) -> None:
    """Write the files, each whole or not at all; `alone`, remove what earlier builds wrote and this one does not."""
    lines = require_free(out, content)
    new = {_line(name, each) for name, each in content.items()}
    _write(out, LIST, "".join(f"{line}\n" for line in sorted(lines | new)).encode())  # first: a kill leaves ours ours
    for name, each in content.items():
        _write(out, name, each)
    others = {line for line in lines if line[66:] not in content}
    for name in {line[66:] for line in others if alone}:
        path = out / name
        if path.is_file() and _is_ours(out, name, lines):
            path.unlink()
    _write(out, LIST, "".join(f"{line}\n" for line in sorted(new if alone else new | others)).encode())


def _write(out: Path, name: str, content: bytes) -> None:
    require_writable((out / name).parent)
    write_atomically(out / name, content)


def _is_ours(out: Path, name: str, lines: set[str]) -> bool:
    """Whether an earlier build wrote the file, or there is none; no link leads elsewhere."""
    path, folder = (out / name).resolve(), out.resolve()
    if path != folder / name or folder not in path.parents:
        return False
    try:
        return _line(name, file_bytes(path)) in lines
    except FileNotFoundError:
        return True
    except OSError:  # a folder, or what cannot be read
        return False


def _line(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}"
