"""`brrr doctor`: what is here, and the one command that would enable more."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import entry_points
from operator import or_
from typing import Any, Protocol

from brrr.cli import inventory
from brrr.cli.clean import clean
from brrr.cli.inventory import Facts, Row
from brrr.cli.report import report
from brrr.core.cards import Card, Carded
from brrr.gpu import CUDA, device, gpu_here, is_gpu

_MARK = {"found": "yes", "missing": "no", "problem": "PROBLEM"}


ADDED = "brrr.doctor"
"""The group of entry points that add to the report: each is a function of `have(row)` that returns an `Addition`."""


class Addition(Protocol):
    """What another distribution says of this machine: a dataclass with lines for a person."""

    def lines(self) -> list[str]:
        """A line each thing."""


@dataclass(frozen=True, repr=False)
class Report(Carded):
    """The doctor's answer; printed, or shown as a table in a notebook."""

    cuda: bool
    accelerator: str | None
    rows: tuple[Row, ...]
    added: tuple[Addition, ...]
    advice: Advice

    def as_dict(self) -> dict[str, Any]:
        """For programs; what is added stands beside the rest."""
        found = super().as_dict()
        return reduce(or_, found.pop("added"), found)

    def _card(self) -> Card:
        more = self.advice
        cells = [(row.what, _MARK[row.status], row.seen, row.enables) for row in self.rows]
        advice = f"To enable more ({more.why}): {more.command}" if more.command else more.why
        added = [line for each in self.added for line in each.lines()]
        return Card("", [[("what", "here", "seen", "enables"), *cells], *added, advice])


def doctor() -> Report:
    """Report the GPU, compilers and libraries of this machine, and the commands that would enable more.

    >>> isinstance(doctor().cuda, bool)
    True

    ``brrr doctor`` in a shell prints the same. It never raises: a check that fails becomes a row of the report.

    Returns
    -------
    Report
        A table; `accelerator` is the kind of GPU that works here, `cuda` whether it is one of CUDA. With the course
        installed it also lists which lessons run live.
    """
    facts = inventory.gather()
    rows = inventory.rows(facts)
    fine = {row.what: row for row in rows}
    works = {row.what for row in rows if row.status == "found"}
    added = tuple(_added(works.__contains__))
    try:
        more = advise(facts, fine)
    except Exception as error:
        more = Advice(None, f"No advice: {error}")
    cuda = facts.cuda_problem is None
    return Report(cuda, CUDA if cuda else gpu_here() if "accelerator" in works else None, rows, added, more)


def _added(have: Callable[[str], bool]) -> Iterator[Addition]:
    for point in entry_points(group=ADDED):
        try:
            yield point.load()(have)
        except Exception as error:
            yield Broken(f"{point.name}: cannot be examined: {error}")


@dataclass(frozen=True)
class Broken:
    """An addition that failed."""

    problem: str

    def lines(self) -> list[str]:
        """What failed."""
        return [self.problem]


def main(argv: Sequence[str] | None = None) -> int:
    """`brrr doctor [--require KIND] [--json] [--report]`: print what is here; status 1 if what is required is not.

    `brrr doctor --clean [NAME ...] [--yes]` lists what brrr keeps on the disk, and with `--yes` removes it.
    """
    parser = argparse.ArgumentParser(prog="brrr doctor", description="What is here, and what would enable more.")
    parser.add_argument("--require", metavar="KIND", help="exit with 1 unless such a GPU works: cuda, mps, …")
    parser.add_argument("--json", action="store_true", help="print for a program instead of a person")
    parser.add_argument("--report", action="store_true", help="measure a few calls too, and print JSON to send to us")
    parser.add_argument("--clean", nargs="*", metavar="NAME", help="list what brrr keeps on the disk")
    parser.add_argument("--yes", action="store_true", help="with --clean: remove the caches, or what is named")
    options = parser.parse_args(argv)
    if options.clean is not None:
        print(clean(options.clean, options.yes))
        return 0
    answer = doctor()
    if options.require and not is_gpu(options.require):  # once torch is loaded, which knows a vendor's own
        parser.error(f"--require is {options.require!r}; expected {device.accelerators()}, or a vendor's own")
    print(report(answer.rows) if options.report else answer.to_json() if options.json else answer)
    return 0 if options.require in (None, answer.accelerator) else 1


# ---------------------------------------------------------------------------------------------------------------------
# The one command that would enable more of the course on this machine.

ELSEWHERE = "Timed by the host's clock. Nobody ran brrr on one yet: please send what `brrr doctor --report` prints."
_DRIVERS = "https://www.nvidia.com/drivers"
_TURING = (7, 5)  # torch's builds for CUDA 13 have no code for older GPUs; those for CUDA 12.6 have

_PACKAGES = {"PyCUDA": "pycuda", "Triton": "triton", "nvmath": "nvmath-python", "NVML": "nvidia-ml-py"}
"""Of each row that a package brings, the package."""


@dataclass(frozen=True)
class Advice:
    """A command to paste, or None where no command helps, and what it would bring."""

    command: str | None
    why: str


def advise(facts: Facts, rows: Mapping[str, Row]) -> Advice:
    """The step that enables most, first things first: torch, driver, torch's CUDA, then the libraries."""
    if rows["torch"].status != "found":
        return Advice(f"{_pip()} install --upgrade torch", "torch, so that anything runs live")
    if "accelerator" in rows:
        return Advice(None, ELSEWHERE)
    if not facts.gpu_seen:
        return _without_gpu(rows)
    if facts.cuda_problem is not None:
        return _repair(facts)
    could = [name for name in _PACKAGES if name != "Triton" or sys.platform == "linux"]  # Triton is made for it alone
    lacking = [name for name in could if rows[name].status != "found"]
    builds = "PyCUDA" not in lacking or rows["nvcc"].status == "found" or _conda()
    if wanted := [name for name in lacking if builds or name != "PyCUDA"]:
        return Advice(_install(wanted), f"{', '.join(wanted)}: more variants live on this GPU")
    if lacking:
        return Advice(_nvcc(), "CUDA's headers, which pip builds PyCUDA with; in a clone `make lab` does without")
    return Advice(None, "Nothing is missing: everything runs live.")


def _without_gpu(rows: Mapping[str, Row]) -> Advice:
    if rows["C compiler"].status != "found":
        command = {"linux": "sudo apt-get install build-essential", "darwin": "xcode-select --install"}
        return Advice(command.get(sys.platform), "a C compiler, for torch.compile on the CPU")
    return Advice(None, "No command adds a GPU: open the lessons on a machine with an NVIDIA one (Colab has them).")


def _repair(facts: Facts) -> Advice:
    """There is a GPU, but CUDA does not work."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        command = "set CUDA_VISIBLE_DEVICES=" if sys.platform == "win32" else "unset CUDA_VISIBLE_DEVICES"
        return Advice(command, "the GPU, which this environment variable hides; then start again")
    build = _build(facts)
    if facts.driver_cuda is None or build is None:
        return Advice(_driver(), f"the NVIDIA driver: a newer one, or a repair ({_DRIVERS})")
    version = (device.torch_version() or "").partition("+")[0]
    wanted = f"torch=={version}" if version else "torch"
    index = f"https://download.pytorch.org/whl/{build}"
    return Advice(f"{_pip()} install --force-reinstall {wanted} --index-url {index}", "a torch that fits this GPU")


def _build(facts: Facts) -> str | None:
    """The build of torch that fits driver and GPU, or None if none does or the one in use already should."""
    if facts.driver_cuda is None or facts.torch is None:
        return None
    newest = "cu130" if facts.driver_cuda >= (13, 0) else "cu126" if facts.driver_cuda >= (12, 6) else None
    cuda = facts.torch.version.cuda
    if cuda is None or int(cuda.split(".")[0]) > facts.driver_cuda[0]:
        return newest
    return "cu126" if newest and _older_than_turing(facts) and not cuda.startswith("12.6") else None


def _older_than_turing(facts: Facts) -> bool:
    try:
        return facts.torch is not None and tuple(facts.torch.cuda.get_device_capability()) < _TURING
    except Exception:  # a GPU that torch cannot reach has no age to it
        return False


def _pip() -> str:
    """This Python's pip, as one types it."""
    here = os.path.relpath(sys.executable) if sys.executable.startswith(os.getcwd() + os.sep) else sys.executable
    return f'"{here}" -m pip' if " " in here else f"{here} -m pip"


def _conda() -> bool:
    """Whether this Python is that of the active conda environment; a venv may run inside one."""
    return os.environ.get("CONDA_PREFIX") == sys.prefix


def _install(names: list[str]) -> str:
    tool = "conda install -c conda-forge" if _conda() else f"{_pip()} install"
    return f"{tool} {' '.join(_PACKAGES[name] for name in names)}"


def _nvcc() -> str:
    elsewhere = "winget install Nvidia.CUDA" if sys.platform == "win32" else "sudo apt-get install nvidia-cuda-toolkit"
    return "conda install -c conda-forge cuda-nvcc" if _conda() else elsewhere


def _driver() -> str | None:
    """Ubuntu has a command for it; elsewhere the driver comes from its maker's page."""
    if "microsoft" in platform.release().lower():
        return None  # in WSL the driver is that of Windows
    return "sudo ubuntu-drivers install" if shutil.which("ubuntu-drivers") else None
