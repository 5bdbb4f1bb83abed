"""What limits an operator, a step and a table's line, each rule on both sides of its threshold."""

import re
from dataclasses import replace
from typing import Any

import pytest
from promises import ROOT, promised
from traces import Maker, cost, gains, plain

from brrr.counting.cost import OperatorCost
from brrr.diagnosis import assess as assessing
from brrr.diagnosis.assess import Assessed, Shares, as_graph_s, assess, by_module, by_operator, regime_of, shares
from brrr.diagnosis.calls import OperatorRun
from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.diagnosis.report import FAR, Diagnosis
from brrr.diagnosis.split import Split
from brrr.roofline.device_model import assumed_launches, model_of
from brrr.tracing.events import Event

H200, CPU = model_of("h200"), model_of("datasheet:cpu")
LONG, SHORT = plain(1 << 26), plain(4096)
PRODUCT = cost("aten::mm", plain(4096, 4096), plain(4096, 4096))
SKINNY = cost("aten::mm", plain(1, 8192), plain(8192, 8192))
ADD, SMALL_ADD = cost("aten::mul", LONG, LONG), cost("aten::mul", SHORT, SHORT)
SHORTEST_S = 8 * H200.value("kernel.floor")
SHARE = promised("docs/diagnosis_rules.md", r"Where it needs less than (two fifths) of its time for either")
FASTER = promised("docs/diagnosis_rules.md", r"in a CUDA Graph, would be faster by a factor of ([\d.]+); else")
ENOUGH = 10**6
"""Blocks that fill the GPU."""


def ran(
    name: str, known: OperatorCost | None, seconds: float, blocks: int = ENOUGH, kernel: str = "k", **more: Any
) -> OperatorRun:
    """One call that took so long on the device."""
    ns = round(seconds * 1e9)
    work = Event(kernel, "kernel", 0, ns, blocks=blocks)
    return OperatorRun(Event(f"aten::{name}", "operator", 0, 1), known, work_ns=ns, kernels=[work], **more)


def limit(*calls: OperatorRun, model: Any = H200) -> str:
    """Of the first of these."""
    return assess(calls, model)[0].limit


def roof_s(known: OperatorCost, model: Any = H200) -> tuple[float, float]:
    """Seconds for its bytes and for its FLOP."""
    found = assessing.time_of(known, model)
    assert found is not None
    return found.memory_s, found.compute_s


@pytest.mark.parametrize(("blocks", "few"), [(0, False), (1, True), (66, True), (67, False), (132, False)])
def test_few_blocks_are_those_of_which_twice_as_many_still_had_a_multiprocessor_each(blocks: int, few: bool) -> None:
    """The H200 has 132; the call takes long, and needs little of it by the roofline."""
    assert H200.sm_count == 132
    assert limit(ran("add", SMALL_ADD, 50 * SHORTEST_S, blocks)) == ("under-filled" if few else "compute")
    assert limit(ran("mylib", None, 1e-3, blocks)) == ("under-filled" if few else "unknown")
    assert limit(ran("copy_", None, 1e-3, blocks)) == ("under-filled" if few else "memory")
    assert limit(ran("native_batch_norm", None, 1e-3, blocks)) == "unknown", "a block for each channel"
    assert limit(ran("mylib", None, 1e-3, blocks), model=replace(H200, sm_count=None)) == "unknown"
    assert limit(ran("mylib", None, 1e-3, blocks), model=None) == "unknown"


def test_the_longest_kernel_s_blocks_count() -> None:
    call = ran("mylib", None, 1e-3, 4)
    call.kernels += [Event("longer", "kernel", 0, 2_000_000, blocks=ENOUGH)]
    assert call.blocks == ENOUGH and limit(call) == "unknown"
    call.kernels.reverse()
    assert call.blocks == ENOUGH and replace(call, kernels=[]).blocks == 0


@pytest.mark.parametrize(("times", "found"), [(0.99, "under-filled"), (1.01, "compute")])
def test_a_kernel_that_ends_before_it_is_under_way_is_short_of_eight_empty_ones(times: float, found: str) -> None:
    assert limit(ran("add", SMALL_ADD, times * SHORTEST_S)) == found
    assert roof_s(SMALL_ADD)[0] < 0.4 * SHORTEST_S, "or it is memory's"


@pytest.mark.parametrize(("share", "found"), [(SHARE + 0.01, "memory"), (SHARE - 0.01, "compute")])
def test_bytes_limit_what_they_take_two_fifths_of(share: float, found: str) -> None:
    memory_s, compute_s = roof_s(ADD)
    assert memory_s > compute_s and limit(ran("add", ADD, memory_s / share)) == found
    beside = ran("mm", PRODUCT, 1e-3)
    assert limit(ran("add", ADD, memory_s / share), beside) == "memory", "beside products fewer numbers would help"


@pytest.mark.parametrize(("share", "found"), [(1.0, "compute"), (SHARE + 0.01, "compute"), (SHARE - 0.01, "compute")])
def test_a_large_product_is_arithmetic(share: float, found: str) -> None:
    assert roof_s(PRODUCT)[1] > roof_s(PRODUCT)[0]
    assert limit(ran("mm", PRODUCT, roof_s(PRODUCT)[1] / share)) == found


def test_a_product_of_few_rows_waits_for_its_weights() -> None:
    memory_s = assessing._from_memory_s(SKINNY, H200)
    assert memory_s > roof_s(SKINNY)[1], "its bytes come from the memory, whatever the cache holds"
    assert limit(ran("mm", SKINNY, memory_s / (SHARE + 0.01))) == "memory"
    assert limit(ran("mm", SKINNY, memory_s / (SHARE - 0.01))) == "compute"
    assert limit(ran("mm", SKINNY, memory_s / (SHARE - 0.01), blocks=4)) == "under-filled"


def test_what_only_moves_is_memory_however_slow_it_is() -> None:
    copied = SMALL_ADD
    assert limit(ran("index", copied, 100 * SHORTEST_S)) == "memory"
    assert limit(ran("add", copied, 100 * SHORTEST_S)) == "compute"
    assert limit(ran("mm (layout)", None, 1e-3, blocks=1)) == "memory", "images that are turned around"


def test_a_collective_waits_for_others() -> None:
    assert limit(ran("add", ADD, roof_s(ADD)[0], kernel="ncclDevKernel_AllReduce")) == "unknown"
    assert limit(ran("copy_", None, 1e-3, 1, kernel="ncclDevKernel_AllReduce")) == "unknown"


def test_a_type_that_the_device_has_no_figure_for_is_unknown() -> None:
    assert assessing.time_of(None, H200) is assessing.time_of(PRODUCT, None) is None
    bare = replace(H200, figures={}, curves={}, peaks=None, hardware=None, reference=None)
    assert assessing.time_of(PRODUCT, bare) is None
    assert limit(ran("mm", PRODUCT, 1e-3), model=bare) == "unknown"


# -- the whole ---------------------------------------------------------------------------------------------------------


def assessed(limit: Any, seconds: float, name: str = "add", module: str = "", known: Any = ADD) -> Assessed:
    return Assessed(ran(name, known, seconds, module=module), assessing.time_of(known, H200), limit)


def test_the_busy_time_is_dealt_out_by_the_calls_work() -> None:
    """Streams may overlap: the work adds up to more than the device was busy for."""
    took = Split(10.0, 6.0, 1.0, {"launch": 2.0, "Python": 1.0}, {})
    found = shares(took, [assessed("memory", 6.0), assessed("compute", 2.0), assessed("memory", 1.0)])
    assert found.work_s == {"memory": pytest.approx(6 * 7 / 9), "compute": pytest.approx(6 * 2 / 9)}
    assert found.overhead_s == {"transfer": 1.0, "launch": 2.0, "Python": 1.0} and found.kernels == 3
    assert found.total_s == pytest.approx(took.wall_s) == found.wall_s
    assert shares(took, []).work_s == {"unknown": 6.0}
    idle = shares(replace(took, busy_s=0.0, transfer_s=0.0), [])
    assert idle.work_s == {} and "transfer" not in idle.overhead_s


def test_a_graph_takes_its_kernels_a_gap_each_and_a_start_each_step() -> None:
    gap_s = H200.value("gap.graph")
    assert as_graph_s(1e-3, 100, 7, H200) == pytest.approx(1e-3 + 100 * gap_s + 7 * 0.8e-6)
    assumed_s = assumed_launches("cuda")["gap.graph"].value
    without = replace(H200, figures={k: v for k, v in H200.figures.items() if k != "gap.graph"})
    for model in (None, without):
        assert as_graph_s(0.0, 10, 0, model) == pytest.approx(10 * assumed_s)


@pytest.mark.parametrize(("factor", "regime"), [(FASTER - 0.01, "memory"), (FASTER + 0.01, "overhead")])
def test_overhead_is_where_the_device_alone_would_be_faster_by_a_factor_of_1_3(factor: float, regime: str) -> None:
    alone_s = as_graph_s(1e-3, 50, 2, H200)
    assert regime_of(Shares(factor * alone_s, {}, {"memory": 6e-4, "compute": 4e-4}, 50), 2, H200) == regime
    assert regime_of(Shares(1.0, {}, {}, 0), 1, H200) == "overhead", "nothing ran"


@pytest.mark.parametrize(("unknown", "regime"), [(0.49, "under-filled"), (0.5, "under-filled"), (0.51, "unknown")])
def test_unknown_is_where_more_than_half_of_the_work_is(unknown: float, regime: str) -> None:
    work: Any = {"unknown": unknown, "under-filled": 0.6 * (1 - unknown), "memory": 0.4 * (1 - unknown)}
    assert regime_of(Shares(1.0, {}, work, 1), 1, None) == regime


# -- the lesson's table ------------------------------------------------------------------------------------------------

LESSON = "notebooks/source/10_diagnose_your_model.py"
NEAR = SHARE
ALONE = NEAR / (1 + promised("docs/diagnosis_rules.md", r"with one to (three) threads, less than so many tenths"))
SEEN: dict[str, tuple[OperatorCost, float, float]] = {
    "the GPU is idle between kernels; a larger size takes as long": (PRODUCT, 1.0, 10.0),
    "near the peak bandwidth, far below the peak FLOP/s": (ADD, NEAR + 0.01, 1.0),
    "far below both, but the GPU is busy": (PRODUCT, NEAR - 0.01, 1.0),
    "near the peak FLOP/s of its type": (PRODUCT, NEAR + 0.01, 1.0),
}
"""What one sees, made up: an operator, the share of its roof that it reaches, and the whole time over its own."""


def told() -> dict[str, str]:
    """What it is by the lesson's table, by what one sees; without what is no regime."""
    row = r"^# \| (.+?) \| (?:\[\[)?(overhead|memory|under-filled|compute)"
    return dict(re.findall(row, (ROOT / LESSON).read_text("utf-8"), re.M))


@pytest.mark.parametrize("model", [H200, CPU], ids=["GPU", "CPU"])
@pytest.mark.parametrize("seen", SEEN)
def test_a_verdict_is_what_the_lesson_s_table_says(seen: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    assert told().keys() == SEEN.keys(), "and no other rows"
    known, share, slower = SEEN[seen]
    call = ran("op", known, max(roof_s(known, model)) / share, blocks=8)
    calls = assess([call if model.is_gpu else replace(call, kernels=[])], model)
    wall_s = slower * calls[0].work_s
    parts = shares(Split(wall_s, calls[0].work_s, 0.0, {"Python": wall_s - calls[0].work_s}, {}), calls)
    found = Diagnosis("here", "live", 1, wall_s, regime_of(parts, 1, model), parts, ())
    far = not model.is_gpu and told()[seen] == "under-filled"
    assert found.regime == told()[seen]
    said = "Far from both roofs for 100 % of" if far else f"{found.regime.capitalize()}-bound: "
    assert str(found).startswith(said.replace("filled-bound", "filled")) and (FAR in str(found)) == far


@pytest.mark.parametrize(("threads", "least"), [(1, ALONE), (2, 2 * ALONE), (4, NEAR), (64, NEAR)])
@pytest.mark.parametrize("known", [ADD, PRODUCT, SMALL_ADD])
def test_on_a_cpu_nothing_is_a_roof_s_that_it_does_not_come_near(
    known: OperatorCost, threads: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is and stands beside: a copy, a sum beside products."""
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    took_s = [max(roof_s(known, CPU)) / share for share in (least - 0.01, least + 0.01)]
    for name in ("op", "index", "copy_"):
        calls = [replace(ran(name, known, each), kernels=[]) for each in took_s]
        far, near = assess([*calls, ran("mm", PRODUCT, 1.0)], CPU)[:2]
        assert far.limit == "under-filled" != near.limit and assess(calls, CPU)[0].limit == "under-filled"


def test_what_helps_a_cpu_far_from_its_roofs_is_not_a_larger_batch(tmp_path: Any) -> None:
    """Two functions of every sixteenth number, each a scheduler's turn long: others had the cores."""
    made = Maker("")
    for _ in range(2):
        gaps = {"Input Dims": [[4096]], "Input Strides": [[16]], "Input type": ["float"], "Concrete Inputs": [""]}
        made._add("cpu_op", "aten::relu", made.now, 16e3, **gaps)
        made.host(16.1e3)
    found = diagnose_trace(made.write(tmp_path / "trace.json"), CPU.hardware)
    assert found.regime == "under-filled" and {"contiguous", "fusion"} <= gains(found).keys()
    assert "larger batch" not in found.details() and "brrr calibrate --device cpu measures it" in found.details()


# -- tables ------------------------------------------------------------------------------------------------------------


def test_lines_add_up_and_the_longest_comes_first() -> None:
    calls = [
        assessed("memory", 1.0, module="a"), assessed("compute", 2.0, module="a"), assessed("memory", 1.5, module="b"),
        assessed("compute", 4.0, "mm", "b", PRODUCT), assessed("unknown", 0.5, "mylib", "", None),
    ]  # fmt: skip
    add, product, other = (
        next(each for each in by_operator(calls, 2.0) if each.name.startswith(n)) for n in ("add", "mm", "my")
    )
    assert [each.name for each in by_operator(calls)] == ["add float32", "mm float32", "mylib"]
    assert (add.calls, add.time_s, add.limit) == (3, 9.0, "memory"), "2.5 s of 4.5 are memory's"
    assert add.flop == 3 * (ADD.flop or 0) and add.nbytes == 3 * ADD.bytes
    predicted = assessing.time_of(ADD, H200)
    assert predicted is not None and add.predicted_s == pytest.approx(3 * (predicted.device_s or 0))
    assert (add.products, product.products, other.products) == ("", "float32", "")
    assert (add.kind, other.kind, other.predicted_s, other.flop, other.nbytes) == (ADD.kind, "unknown", None, 0.0, 0.0)
    assert product.flop_per_s == product.flop / 8.0 and product.bytes_per_s == product.nbytes / 8.0
    empty = replace(add, time_s=0.0)
    assert (empty.flop_per_s, empty.bytes_per_s) == (0.0, 0.0)
    assert [(each.name, each.time_s) for each in by_module(calls)] == [("b", 5.5), ("a", 3.0)]
    assert by_operator([*calls, assessed("memory", 1.0, "add", "", replace(ADD))])[0].calls == 4


# -- float32 products in TF32 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "layers", "dtype"),
    [("sm80_tf32_gemm", (), "tf32"), ("s1688gemm", (), "tf32"), ("sgemm_128", ("mm",), "float32"), ("k", (), "float32"),
     ("cutlass_simt", ("mm",), "float32")],
)  # fmt: skip
def test_the_kernel_s_name_tells_whether_a_product_ran_in_tf32(kernel: str, layers: Any, dtype: str) -> None:
    from brrr.roofline.terms import dtype_of

    (found,) = assessing.as_computed([ran("mm", PRODUCT, 1e-3, kernel=kernel)], H200, layers)
    assert found.cost is not None and dtype_of(found.cost) == dtype
    (kept,) = assessing.as_computed([ran("mm", PRODUCT, 1e-3, kernel=kernel)], None, layers)
    assert kept.cost == PRODUCT
