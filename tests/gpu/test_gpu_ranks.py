"""Two GPUs: every way over two ranks is right and has the GPU's times; a machine with one GPU skips."""

from pathlib import Path
from typing import Any

import pytest

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr_course.experiments import experiment
from brrr_course.experiments.ranks import end_ranks, ranks_on, require_devices
from brrr_course.nouns.source import broken
from brrr_course.sources.recording import collect_environment, on_several
from brrr_course.sources.rows import Timed
from brrr_course.sources.timeline_file import read, write
from brrr_course.sources.timers import measure_point, trace_variant


@pytest.fixture(scope="module", autouse=True)
def two() -> Any:
    try:
        require_devices(2, "cuda")
    except UnavailableError as error:
        pytest.skip(str(error))
    yield
    end_ranks()


MLP, BLOCK, RNN = experiment("data_parallel").axis("network").values
AT: list[tuple[str, dict[str, Any]]] = [
    *(("collective", {"nbytes": size}) for size in (8, 2**20, 2**30)),
    *(("data_parallel", {"network": name, "batch": batch, "bucket": 25})
      for name, batch in ((MLP, 2), (MLP, 8192), (BLOCK, 2), (BLOCK, 128), (RNN, 2), (RNN, 512))),
    ("data_parallel", {"network": MLP, "batch": 2048, "bucket": 400}),
    *(("tensor_parallel", {"width": width, "batch": batch}) for width, batch in ((1024, 1), (16384, 1), (8192, 16384))),
]  # fmt: skip


def measured(name: str, at: Point) -> dict[str, Timed]:
    found = experiment(name)
    here = [each.name for each in found.variants if each.on_gpu and found.has(each.name, at)]
    made = measure_point(found, here, at)
    assert [str(timed) for timed in made.values() if not isinstance(timed, Timed)] == []
    return made  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "at"), AT)
def test_every_way_is_right_and_has_its_times(name: str, at: Point) -> None:
    for way, timed in measured(name, at).items():
        m = timed.measurement
        print(f"{name} {way} {at}: {timed.error:.2g}; {m.host_s}, {m.period_s}, kernels {m.kernels}, {m.busy_s}"
              f"{', broken ' * bool(broken(m))}{broken(m) or ''}")  # fmt: skip
        assert m.host_s and m.latency_s and m.period_s and m.kernel_s and m.busy_s and m.kernels
        assert m.busy_s.median <= 1.001 * m.kernel_s.median


def test_a_run_names_both_gpus() -> None:
    run = on_several(collect_environment("cuda")[1], "cuda", 2)
    names = [each.uuid for each in run.devices]
    print(run.devices)
    assert len(set(names)) == 2 and all(name.startswith("GPU-") for name in names)


def test_a_timeline_has_both_gpus_and_the_exchange_apart(tmp_path: Path) -> None:
    found = trace_variant(experiment("data_parallel"), "buckets", {"network": MLP, "batch": 8192, "bucket": 25})
    print(found, found.lanes)
    assert found.streams and {"GPU 0 compute", "GPU 0 exchange", "GPU 1 compute", "GPU 1 exchange"} == set(
        found.streams
    )
    assert found.calls == 3 and 0.3 < found.inflation < 5
    assert [span for span in found.device_spans() if span.lane == "GPU 0 exchange" and span.cause >= 0]
    assert read(write(found, tmp_path / "buckets.json")).lanes == found.lanes


def test_each_rank_has_a_gpu_of_its_own() -> None:
    assert ranks_on("cuda").call(device_of) == [0, 1]


def device_of(rank: Any) -> int:
    import torch

    return torch.cuda.current_device()
