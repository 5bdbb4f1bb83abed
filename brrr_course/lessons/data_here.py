"""`data_here`: where the figures of this computer get their numbers from."""

from brrr.gpu import is_cpu, is_gpu
from brrr.gpu.device import default_device_kind
from brrr_course.experiments import experiment
from brrr_course.sources import source

QUEUE = "a CPU queue, which is a second thread, plays the GPU: it has a GPU's overhead, but not its arithmetic"


def data_here() -> None:
    """Print where the plots on this machine get their data from.

    >>> data_here()  # doctest: +SKIP
    No GPU here: the figures replay an NVIDIA H200, and every slider works.
    """
    chosen = source()
    device = chosen.badge(experiment("matmul")).device
    measured = f"this CPU, and {QUEUE}" if is_cpu(chosen.name) else f"this {device}"
    live = f"The figures measure {measured}. To fill one, press “Measure all points” below it."
    why = "As BRRR_SOURCE asks" if is_gpu(default_device_kind()) else "No GPU here"
    print(live if chosen.live else f"{why}: the figures replay an {device}, and every slider works.")
