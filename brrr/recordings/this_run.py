"""This machine, and a new run on it: what `machine.json` says of both."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib import metadata

from brrr import __version__
from brrr.experiment import DeviceKind
from brrr.recordings.machine import Machine, RunInfo


def here(kind: DeviceKind) -> tuple[Machine, RunInfo]:
    """This machine, and a new run on it; UnavailableError where CUDA is asked for and absent."""
    from brrr.device import this_device

    device = this_device(kind)
    machine = Machine(
        slug=device.slug,
        device=device.name,
        kind=kind,
        driver=device.driver_version or "",
        cuda=device.cuda_version or "",
        torch=device.torch_version or "",
    )
    now = datetime.now(UTC)
    run = RunInfo(
        id=now.strftime("%Y%m%d-%H%M%S-%f")[:-3],
        date=now.isoformat(timespec="seconds"),
        brrr=__version__,
        uuid=device.uuid or "",
        triton=_version("triton") if kind == "cuda" else "",
        python=platform.python_version(),
        runtime=device.runtime,
        cpu=device.cpu,
        cpu_cores=device.cpu_count,
    )
    return machine, run


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
