"""The experiments `unary`, `working_set`, `strides` and `occupancy`: costs, runs on a CPU, claims that fail."""

from collections.abc import Callable, Mapping
from pathlib import Path

import made_up
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brrr.core.files import PACKAGE
from brrr.core.measurement import Measurement, Value
from brrr.kernels import strides as strides_kernel
from brrr_course.experiments import experiment
from brrr_course.experiments import occupancy as occupancy_module
from brrr_course.experiments import strides as strides_work
from brrr_course.experiments import working_set as sets
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.plan import Step
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Machine
from brrr_course.sources.rows import Timed

UNARY, SETS, STRIDES = map(experiment, ("unary", "working_set", "strides"))
H200 = Machine("h200", "NVIDIA H200", "cuda")
Seconds = Callable[[str, Mapping[str, Value]], float]


def on_cpu(described: Experiment) -> list[str]:
    return [variant.name for variant in described.variants if variant.device == "cpu-queue"]


def recorded(root: Path, described: Experiment, seconds: Seconds, only: dict[str, list[str]] | None = None) -> Recorded:
    """A recording of a made-up GPU."""

    def measure(step: Step) -> dict[str, Timed]:
        found = {}
        for variant in step.variants:
            time, cost = made_up.estimate(seconds(variant, step.point)), described.cost_at(variant, step.point)
            assert cost is not None
            times = dict.fromkeys(("host_s", "period_s", "latency_s", "busy_s", "kernel_s", "span_s"), time)
            m = Measurement(**times, cache=described.variant(variant).cache)
            found[variant] = Timed(m, cost, made_up.ERROR)
        return found

    made_up.record(root, H200, only, names=(described.name,), measure=measure)
    return Recorded("h200", str(root))


# ---- unary ----


# ---- working sets ----


@given(st.sampled_from(sets.NBYTES), st.sampled_from(sorted(sets.KINDS)))
def test_a_set_is_nearly_as_large_as_asked_for_and_whole_lines(nbytes: int, kind: str) -> None:
    found = sets.set_bytes(kind, nbytes)
    assert 0.95 * nbytes < found <= nbytes and found % (1024 * sets.KINDS[kind]) == 0


# ---- strides ----


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 40))
def test_touched_numbers_and_sectors_by_counting(numbers: int, stride: int, offset: int) -> None:
    point: dict[str, Value] = {"numbers": numbers, "stride": stride, "offset": offset}
    places = list(range(offset, numbers, stride))
    assert strides_work.touched(point) == len(places)
    assert strides_work.sectors(point) == len({place // 8 for place in places})
    assert len(strides_work.strided(torch.zeros(numbers), point)) == len(places)


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 40))
def test_pieces_of_two_sectors_by_counting(numbers: int, stride: int, offset: int) -> None:
    point: dict[str, Value] = {"numbers": numbers, "stride": stride, "offset": offset}
    found = strides_work.sectors(point, nbytes=64)
    assert found == len({place // 16 for place in range(offset, numbers, stride)})


def test_blocks_cover_every_number() -> None:
    for count in (0, 1, 31, 1024, 1025, 2**28):
        for each in (strides_kernel.READS, strides_kernel.WRITES):
            found = strides_kernel.blocks(count, each) * each * strides_kernel.THREADS
            assert count <= found < count + each * strides_kernel.THREADS


def test_the_kernels_agree_with_python_on_their_blocks() -> None:
    source = (PACKAGE / "kernels/strides.cu").read_text(encoding="utf-8")
    work = strides_kernel
    assert f"THREADS = {work.THREADS}, READS = {work.READS}, WRITES = {work.WRITES};" in source


@pytest.mark.parametrize("name", on_cpu(STRIDES))
def test_a_neighbour_that_is_touched_instead_is_found(name: str) -> None:
    point: dict[str, Value] = {"numbers": 1000, "stride": 4, "offset": 1}
    run, error, tolerance = strides_work.CPU_MAKERS[STRIDES.variant(name).implementation](point, "cpu")
    right = run()
    assert error(right) <= tolerance
    wrong = right.roll(1) if right.dim() else right * 1.01
    if name == "queue-write":
        right._base.add_(1)  # type: ignore[union-attr]
        wrong = right
    assert not error(wrong) <= tolerance


def test_offsets_are_numbers_where_they_are_read_back(tmp_path: Path) -> None:
    """A category of numbers must come back from a file as numbers."""
    source = recorded(tmp_path, STRIDES, lambda *_: 1e-3, {"numbers": [str(2**22)]})
    assert {point[1] for point in source.known(STRIDES, "read")} == set(strides_work.OFFSETS)


# ---- occupancy ----


def test_the_kernel_agrees_with_python_on_its_blocks() -> None:
    source = (PACKAGE / "kernels/occupancy.cu").read_text(encoding="utf-8")
    assert f"THREADS = {occupancy_module.THREADS}, NUMBERS = {occupancy_module.NUMBERS};" in source
    assert all(f"brrr_in_flight_{loads}(" in source for loads in occupancy_module.NAMED)
