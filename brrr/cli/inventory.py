"""What is installed here and works, as rows of a table; a check that fails is a row too, never an exception."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, TypeVar

from brrr.core.errors import first_line
from brrr.gpu import CUDA, UNTRUSTED_EVENTS, device, gpu_here, is_cuda, probe
from brrr.timing.activity import sees

Status = Literal["found", "missing", "problem"]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One thing that the course can use: whether it is here, what was seen of it, and what it enables."""

    what: str
    status: Status
    seen: str
    enables: str


@dataclass(frozen=True)
class Facts:
    """What several rows need to know, asked once."""

    torch: ModuleType | None
    no_torch: Exception | None
    cuda_problem: str | None  # None: CUDA works
    gpus: Sequence[tuple[str, str]]  # (name, driver version), from nvidia-smi
    no_smi: Exception | None
    gpu_seen: bool
    driver_cuda: tuple[int, int] | None


def gather() -> Facts:
    """Ask everything that takes long, at the same time: loading torch, running nvidia-smi."""
    with ThreadPoolExecutor(1) as pool:
        smi = pool.submit(probe.nvidia_smi)
        torch, no_torch = _asked(probe.torch_module)
        problem, failed = _asked(device.cuda_problem)
        gpus, no_smi = _asked(smi.result)
    cuda_problem = f"the check of CUDA fails: {first_line(failed)}" if failed else problem
    seen = bool(gpus) or cuda_problem is None or bool(_asked(probe.gpu_seen)[0])
    return Facts(torch, no_torch, cuda_problem, gpus or (), no_smi, seen, _asked(probe.driver_cuda)[0])


def _asked(ask: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """The answer, or what went wrong."""
    try:
        return ask(), None
    except Exception as error:
        return None, error


def rows(facts: Facts) -> tuple[Row, ...]:
    """The table, from what everything needs to what few lessons need."""
    checks: list[tuple[str, str, Callable[[], tuple[Status, str]]]] = [
        ("Python", "everything", _python),
        ("torch", "live measurements", lambda: _torch_row(facts)),
        ("NVIDIA GPU", "lessons live on the GPU", lambda: _gpu(facts)),
        ("NVIDIA driver", "CUDA", lambda: _driver(facts)),
        ("CUDA", "lessons live on the GPU", lambda: _cuda(facts)),
        ("nvcc", "pip's way to build PyCUDA", lambda: ("found", _release())),
        ("PyCUDA", "the variants in CUDA C++", lambda: _pycuda(facts)),
        ("Triton", "fused kernels, torch.compile on the GPU", _triton),
        ("nvmath", "cuBLAS without torch around it", lambda: ("found", probe.package_version("nvmath-python"))),
        ("CUPTI", "kernel times from the GPU itself, not calibrated ones", lambda: _cupti(facts)),
        ("NVML", "clocks and power caps beside each time", lambda: ("found", probe.package_version("nvidia-ml-py"))),
        ("C compiler", "torch.compile on the CPU, Triton", _compiler),
    ]
    if (kind := _asked(gpu_here)[0]) and not is_cuda(kind):  # elsewhere there is no such row
        checks.append(("accelerator", "live measurements by the host's clock", lambda: _accelerator(kind)))
    with ThreadPoolExecutor(4) as pool:  # nvcc and the compiler are programs: let them start side by side
        return tuple(pool.map(lambda check: _row(*check), checks))


def _row(what: str, enables: str, check: Callable[[], tuple[Status, str]]) -> Row:
    try:
        status, seen = check()
    except probe.BrokenError as error:
        status, seen = "problem", str(error)
    except probe.ProbeError as error:
        status, seen = "missing", str(error)
    except Exception as error:  # a table with one bad row is of more use than a traceback
        status, seen = "problem", f"the check itself fails: {first_line(error)}"
    return Row(what, status, seen, enables)


def _python() -> tuple[Status, str]:
    return "found", f"{platform.python_version()}, {platform.system()} {platform.machine()}"


def _torch_row(facts: Facts) -> tuple[Status, str]:
    if facts.torch is None:
        raise facts.no_torch or probe.ProbeError("not installed")
    cuda = facts.torch.version.cuda
    return "found", f"{facts.torch.__version__}, " + (f"built for CUDA {cuda}" if cuda else "built without CUDA")


def _gpu(facts: Facts) -> tuple[Status, str]:
    if facts.torch is not None and facts.cuda_problem is None:
        this = device.this_device(CUDA)
        capability = ".".join(map(str, this.compute_capability or ()))
        peaks = "datasheet known" if this.hardware else "no datasheet here for it"
        return "found", f"{this.name}, compute capability {capability}, {peaks}"
    if facts.gpus:
        return "found", ", ".join(name for name, _ in facts.gpus)
    return ("problem", "seen, but it does not answer") if facts.gpu_seen else ("missing", "none")


def _driver(facts: Facts) -> tuple[Status, str]:
    version = probe.driver_version() or next((driver for _, driver in facts.gpus), None)
    runs = ".".join(map(str, facts.driver_cuda or ())) or "unknown"
    if facts.torch is not None and facts.cuda_problem is not None:
        old = device.too_old_driver(facts.torch)
        if old:
            return "problem", f"{version or 'version unknown'}; {old}"
    if version or facts.cuda_problem is None:
        return "found", f"{version or 'version unknown'}, runs CUDA up to {runs}"
    if facts.gpu_seen and type(facts.no_smi) is probe.ProbeError:  # the GPU is here, and the driver's own tool is not
        raise probe.BrokenError(str(facts.no_smi))
    raise facts.no_smi or probe.ProbeError("nvidia-smi lists no GPU")


def _cuda(facts: Facts) -> tuple[Status, str]:
    if facts.cuda_problem is None:
        return "found", "works: a first addition on the GPU is right"
    return "problem" if facts.gpu_seen else "missing", facts.cuda_problem


def _accelerator(kind: str) -> tuple[Status, str]:
    if problem := device.accelerator_problem(kind):
        return "problem", f"{kind}: {problem}"
    told = "not trusted" if kind in UNTRUSTED_EVENTS else "untried", "sees it" if sees(kind) else "does not see it"
    return "found", f"{device.this_device(kind).name}: a first addition is right, events {told[0]}, profiler {told[1]}"


def _pycuda(facts: Facts) -> tuple[Status, str]:
    version = probe.package_version("pycuda")
    if not facts.gpu_seen:
        return "missing", f"{version} is installed, but there is no GPU"
    probe.module("pycuda.driver")  # loads the NVIDIA driver's library, so that a version alone proves nothing
    return "found", version


def _triton() -> tuple[Status, str]:
    if importlib.util.find_spec("triton") is None:
        raise probe.ProbeError("not installed")
    return "found", probe.package_version("triton", "triton-windows", "pytorch-triton")


def _cupti(facts: Facts) -> tuple[Status, str]:
    profiler = facts.torch.profiler if facts.torch is not None and facts.cuda_problem is None else None
    sees = profiler is not None and profiler.ProfilerActivity.CUDA in profiler.supported_activities()
    return ("found", "through torch.profiler") if sees else ("missing", "no torch.profiler that sees the GPU")


def _compiler() -> tuple[Status, str]:
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang", "cl"]
    path = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if path is None:
        raise probe.ProbeError("no cc, gcc, clang or cl on the PATH")
    if os.path.basename(path).lower() in ("cl", "cl.exe"):  # has no --version
        return "found", path
    return "found", probe.output(path, "--version").splitlines()[0]


def _release() -> str:
    """The line of nvcc's answer that names its version."""
    lines = probe.output("nvcc", "--version").splitlines()
    return next((line.strip() for line in lines if "release" in line), lines[-1])
