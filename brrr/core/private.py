"""Code that others cannot have put there: folders of their owner alone, and a Python that imports from no other.

>>> private_folder("kernels").is_dir()
True
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from brrr.core.files import PACKAGE, cache_folder

AS_MODULE = """import runpy, sys
root, parent, name = sys.argv[1:4]
del sys.argv[1:4]
root in sys.path or sys.path.insert(0, root)
from brrr.core.private import end_with
end_with(int(parent))
runpy.run_module(name, run_name="__main__", alter_sys=True)"""


def python(module: str, *arguments: str) -> list[str]:
    """The command `python -m MODULE`, which finds this package and imports nothing from the current folder.

    It ends with this process, which is to start it.

    >>> python("brrr")[1]
    '-P'
    """
    return [sys.executable, "-P", "-c", AS_MODULE, str(PACKAGE.parent), str(os.getpid()), module, *arguments]


def end_with(parent: int) -> None:
    """Have this process end within a second of the one that started it, however that ends, `kill -9` too.

    >>> end_with(os.getppid())
    """
    if sys.platform != "win32":  # where nothing tells that a parent is gone
        threading.Thread(target=_outlive, args=(parent,), daemon=True).start()


def _outlive(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(0 if os.getpgrp() == os.getpid() else os.getpid(), signal.SIGKILL)  # with the group that it leads


COMPILED = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
"""Where torch.compile and Triton keep code that later processes run: a variable, and a folder of the cache."""
KEPT = {
    "kernels": "kernels that NVRTC compiled",
    "inductor": "code that torch.compile made",
    "triton": "kernels that Triton compiled",
    "dask": "what the workers of `brrr class serve` write",
}
"""The folders of the cache, each made again when it is missed, and what lies in them."""


def keep_compiled_code_private() -> None:
    """Have torch.compile and Triton keep their code where nobody else can write, and their processes too.

    >>> keep_compiled_code_private()

    torch's own choice is a folder of /tmp whose name everybody knows: who makes it first has their code run. A folder
    that the variable names already is somebody's choice, and stays.
    """
    for variable, name in COMPILED.items():
        if "torchinductor_" in (os.environ.get(variable) or "torchinductor_"):  # torch writes its own choice there
            with suppress(OSError):
                os.environ[variable] = str(private_folder(name))


def private_folder(name: str) -> Path:
    """A folder of the cache that code is run from: its owner's, and nobody else can write to it.

    >>> private_folder("kernels").is_dir()
    True

    Where the cache can have none (its disk is read-only, somebody else made it), one that ends with this process.
    """
    folder = cache_folder() / name
    with suppress(OSError):
        for each in (folder.parent, folder):
            each.mkdir(0o700, parents=True, exist_ok=True)
            _take_from_others(each, its_content=each is folder)
        if os.access(folder, os.W_OK):
            return folder
    return _fresh_folder(folder)


def _take_from_others(folder: Path, *, its_content: bool) -> None:
    """End others' right to write, and what they may have written; PermissionError for a folder that is another's."""
    if not hasattr(os, "geteuid"):
        return  # Windows: the folder lies in the user's profile
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(folder)
    if found.st_mode & 0o022:
        if its_content:
            shutil.rmtree(folder)
            folder.mkdir(0o700)
        else:
            folder.chmod(found.st_mode & 0o755)


@lru_cache
def _fresh_folder(instead_of: Path) -> Path:
    made = tempfile.mkdtemp(prefix=f"brrr-{instead_of.name}-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
