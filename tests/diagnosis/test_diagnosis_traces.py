"""Saved traces: regimes, splits that add up, remedies by their evidence, and what is wrong with a file."""

import atexit
import gzip
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from traces import LARGE, PRODUCT, Build, Maker, diagnosis, gains, pick, plain, predicted_us, product, tiny

from brrr.cli import diagnose
from brrr.cli.diagnose import main
from brrr.core.errors import ArgumentError
from brrr.counting.cost import OperatorCost
from brrr.diagnosis import assess
from brrr.diagnosis.device_remedies import _follows
from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.gpu import is_cpu
from brrr.gpu.device import default_device_kind
from brrr.roofline.peaks import recorded_peaks
from brrr.tracing import trace_file
from brrr.tracing.trace_file import TraceFileError, read_trace


def relu(made: Maker, count: int = 1) -> None:
    for _ in range(count):
        made.work("aten::relu", LARGE, us=predicted_us("aten::relu", LARGE))


def few_blocks(made: Maker) -> None:
    """A kernel that takes long on few multiprocessors, the host far ahead."""
    made.work("aten::relu", plain(4096), us=200.0, blocks=4)


REGIMES: dict[str, tuple[Build, str]] = {
    "memory": (relu, "memory"), "compute": (product, "compute"), "overhead": (tiny, "overhead"),
    "under-filled": (few_blocks, "under-filled"),
}  # fmt: skip


@pytest.mark.parametrize("case", REGIMES)
def test_regimes(case: str, tmp_path: Path) -> None:
    step, regime = REGIMES[case]
    found = diagnosis(tmp_path, step)
    assert found.regime == regime and found.steps == 10 and found.device == "NVIDIA H200"
    assert sum(found.parts.values()) == pytest.approx(found.step_s, rel=0.03)
    assert found.details().startswith(f"{regime.capitalize()}-bound: ".replace("filled-bound", "filled"))


def waits(made: Maker) -> None:
    product(made)
    made.wait("cudaStreamSynchronize")
    made.host(4000)


def loads(made: Maker) -> None:
    began = made.now
    made.host(5000)
    made.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", began)
    product(made)


def copies(made: Maker) -> None:
    name = "Memcpy HtoD (Pageable -> Device)"
    made.work("aten::copy_", LARGE, LARGE, us=30000.0, category="gpu_memcpy", kernel=name, nbytes=2**28)
    product(made)


def odd(made: Maker) -> None:
    a, b = plain(4096, 4096, dtype="bfloat16"), plain(4096, 4097, dtype="bfloat16")
    made.work("aten::mm", a, b, us=predicted_us("aten::mm", a, b))


def wide(made: Maker) -> None:
    a = plain(8192, 4096)
    b = plain(4096, 4096)
    made.work("aten::mm", a, b, us=predicted_us("aten::mm", a, b))


def gaps(made: Maker) -> None:
    made.work("aten::relu", ((8192, 2048), (16384, 8), "float32"), us=130.0)


def allocates(made: Maker) -> None:
    began = made.now
    made.host(800)
    made._add("cuda_runtime", "cudaMalloc", began, 800.0, correlation=0)
    product(made)
    made.wait("cudaStreamSynchronize")


def by_tensor(made: Maker) -> None:
    product(made)
    began = made.now
    for _ in range(200):
        made.work("aten::add_", plain(64), plain(64), numbers=("", "", "1"), us=1.2, host_us=30.0, blocks=1)
    made.span("Optimizer.step#Adam.step", began)


def turned(made: Maker) -> None:
    product(made)
    made.work("aten::copy_", LARGE, LARGE, us=900.0, kernel="void cudnn::ops::nchwToNhwcKernel<float>")


def chained(made: Maker) -> None:
    for _ in range(5):
        relu(made)


def sliced(made: Maker) -> None:
    row, weights = plain(1, 512), plain(512, 512)
    for at in range(64):
        pick(made, [64, 512], at)
        made.work("aten::mm", row, weights, us=2.0, blocks=8)


REMEDIES: dict[str, tuple[Build, set[str]]] = {
    "no synchronisation": (waits, {"no synchronisation"}),
    "load in the background": (loads, {"load in the background"}),
    "pinned memory": (copies, {"pinned memory", "keep on device"}),
    "padding": (odd, {"padding"}),
    "tensor cores": (wide, {"tensor cores"}),
    "contiguous": (gaps, {"contiguous"}),
    "keep memory": (allocates, {"keep memory", "no synchronisation"}),
    "fused optimiser": (by_tensor, {"fused optimiser"}),
    "channels last": (turned, {"channels last"}),
    "fusion": (chained, {"fusion"}),
    "cuda graph": (tiny, {"cuda graph"}),
    "batched": (sliced, {"batched"}),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_the_evidence_names_its_remedy_first(name: str, tmp_path: Path) -> None:
    step, first = REMEDIES[name]
    found = diagnosis(tmp_path, step)
    assert found.remedies and found.remedies[0].name in first, found.details()
    assert name in gains(found) and min(gains(found).values()) >= 1.1


def rows_scattered(made: Maker) -> None:
    wide(made)
    rows, at = plain(2**20, 128), plain(2**20, dtype="int64")
    made.work("aten::index_add_", rows, at, rows, numbers=("", "0", "", ""), us=100_000.0)


def trained(made: Maker) -> None:
    wide(made)
    began = made.now
    made.work("aten::add_", LARGE, LARGE, numbers=("", "", "1"), us=100_000.0)
    made.span("Optimizer.step#Adam.step", began)


def mostly_short(made: Maker) -> None:
    for _ in range(8):
        product(made)
    wide(made)
    relu(made, 30)


@pytest.mark.parametrize("step", [rows_scattered, trained, mostly_short])
def test_autocast_gains_nothing_for_what_it_leaves_alone(step: Build, tmp_path: Path) -> None:
    alone, beside = (gains(diagnosis(tmp_path, each)).get("tensor cores", 1.0) for each in (wide, step))
    assert beside < 1.2 < alone


@pytest.mark.parametrize(("name", "cast"), [("aten.native_batch_norm", True), ("aten.native_layer_norm", False)])
def test_autocast_leaves_norms_in_float32_but_for_batch_norms(name: str, cast: bool) -> None:
    norm = OperatorCost(name, 1.0, 4.0, 4.0, "float32", ((1,),), "norm")
    assert _follows(SimpleNamespace(call=SimpleNamespace(cost=norm))) == cast  # type: ignore[arg-type]


def skinny(made: Maker) -> None:
    a, b = plain(16, 8192), plain(8192, 8192)
    made.work("aten::mm", a, b, us=predicted_us("aten::mm", a, b))


def normed(made: Maker) -> None:
    turned(made)
    made.work("aten::native_group_norm", plain(8, 64, 64, 64), us=50.0)


@pytest.mark.parametrize(("name", "step"), [
    ("tensor cores", skinny),  # autocast casts more than it saves
    ("channels last", normed),  # which turns images around again
    ("strassen", product),  # of bfloat16
])  # fmt: skip
def test_what_gains_nothing_here_is_not_named(name: str, step: Build, tmp_path: Path) -> None:
    assert name not in gains(diagnosis(tmp_path, step))


def test_large_products_in_float32_have_a_faster_way_that_is_as_accurate(tmp_path: Path) -> None:
    found = gains(diagnosis(tmp_path, wide))
    assert 1.1 < found["strassen"] < found["tensor cores"]


def test_streams_that_overlap_gain_no_more_than_there_is(tmp_path: Path) -> None:
    def four(made: Maker) -> None:
        relu(made, 4)

    found = diagnosis(tmp_path, four)
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    kernels = [each for each in events["traceEvents"] if each["cat"] == "kernel"]
    for place, each in enumerate(kernels):
        each["args"]["stream"] = place % 4
        each["ts"] = kernels[place - place % 4]["ts"]
    (tmp_path / "four.json").write_text(json.dumps(events), encoding="utf-8")
    beside = diagnose_trace(tmp_path / "four.json")
    assert max(gains(found).values()) < 5 > max(gains(beside).values(), default=0.0) and "fusion" not in gains(beside)


def test_what_happens_beside_the_work_costs_nothing(tmp_path: Path) -> None:
    """Loading while the device works, and large products in a loop: neither is a fault."""

    def hidden(made: Maker) -> None:
        product(made)
        began = made.now
        made.host(1000)
        made.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", began)

    def many(made: Maker) -> None:
        for _ in range(20):
            made._add("cpu_op", "aten::select", made.now, 2.0)
            product(made)

    for step in (hidden, many):  # a product in 16 bits is no fault: fp8 has its price
        assert {*gains(diagnosis(tmp_path, step, steps=3))} <= {"fewer bits"}


def test_steps_without_work_need_no_larger_batch(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, lambda made: made.host(100), wait=False)
    assert found.remedies == () and found.regime == "unknown" and "holds none of its work" in found.problems[0]


def test_of_several_devices_the_busiest_counts(tmp_path: Path) -> None:
    made = Maker()
    for _ in range(10):
        relu(made)
    for number, each in enumerate(event for event in made.events if event["cat"] == "kernel"):
        each["args"]["device"] = number % 2 and 1
    found = diagnose_trace(made.write(tmp_path / "two.json"))
    assert any("of 2 devices" in each for each in found.notes) and found.parts["memory"] < 0.6 * found.step_s


def test_communication_is_exposed_where_nothing_is_computed_beside_it(tmp_path: Path) -> None:
    """Steps of 400 µs, each with 100 µs of an all-reduce: 60 µs of them beside products, on streams of their own."""

    def step(made: Maker) -> None:
        made.work("aten::mm", PRODUCT, PRODUCT, us=300.0)
        made.work("c10d::allreduce_", plain(1024), us=100.0, kernel="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        reduced = made.events[-1]
        reduced["ts"], reduced["args"]["stream"] = round(reduced["ts"] - 60.0, 3), 20

    [said] = [each for each in diagnosis(tmp_path, step).notes if "communication" in each]
    assert said == "100 µs a step are communication between devices, 40 % of it exposed: beside it nothing is computed"
    assert not any("communication" in each for each in diagnosis(tmp_path, product).notes)


@pytest.mark.parametrize("wrong", [{"args": [1]}, {"args": "x"}, {"args": {"stream": "default"}}])
def test_a_damaged_event_and_header_are_left_out(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = saved(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 1.0, **wrong})
    for devices in ({}, ["H200"], [{"id": "x"}], [{"id": float("inf")}], None):
        content["deviceProperties"] = devices
        path.write_text(json.dumps(content), encoding="utf-8")
        assert "a GPU that the trace does not name" in diagnose_trace(path).details()


def test_names_move_no_terminal_and_are_no_path(tmp_path: Path) -> None:
    """They come from a file: escape sequences, and what turns a line around, are shown as Python writes them."""
    odd = "\x1b]0;mine\x07\x1b[2J\u202e"
    made = Maker(device=odd + "x" * 5000)
    for _ in range(3):
        made.work(f"aten::{odd}", LARGE, us=100.0, kernel=odd)
    text = diagnose_trace(made.write(tmp_path / "odd.json")).details()
    assert text.replace("\n", "").isprintable() and "\\x1b]0;mine\\x07\\x1b[2J\\u202e" in text


def test_a_kernel_of_the_compiler_s_counts_by_its_bytes(tmp_path: Path) -> None:
    """Two inputs and a result of 2^26 float32 in 200 µs: 4 TB/s."""
    name = "triton_poi_fused_add_cos_0"
    found = diagnosis(tmp_path, lambda made: made.work(name, LARGE, LARGE, LARGE, us=200.0, kernel=name))
    (line,) = found.operators
    assert found.regime == "memory" and line.bytes_per_s == pytest.approx(3 * 4 * 2**26 / 200e-6)
    other = diagnosis(tmp_path, lambda made: made.work("triton_tem_fused_mm_0", LARGE, LARGE, us=200.0))
    assert other.regime == "unknown"


def test_a_device_without_the_short_type(tmp_path: Path) -> None:
    """A V100 has no bfloat16: float16 it is."""
    assert "tensor cores" in gains(diagnosis(tmp_path, wide, 3, wait=False, device="Tesla V100-SXM2-32GB"))


def test_set_up_is_no_part_of_a_trace_without_marks(tmp_path: Path) -> None:
    made = Maker()
    made._add("cpu_op", "aten::randn", made.now, 5e6)
    made.host(5e6)
    made.free = made.now
    for _ in range(10):
        relu(made)
    made.wait()
    found = diagnose_trace(made.write(tmp_path / "bare.json"))
    assert found.regime == "memory" and found.step_s < 0.01 and any("step()" in each for each in found.notes)


def test_work_that_was_issued_before_is_told(tmp_path: Path) -> None:
    made = Maker()
    for _ in range(4):
        product(made)
    for number in range(8):
        began = made.now
        product(made)
        made.span(f"ProfilerStep#{number}", began)
    found = diagnose_trace(made.write(tmp_path / "ahead.json"))
    (said,) = [each for each in found.notes if "issued before" in each]
    assert said.startswith("in 33.3 %")
    assert not any("issued before" in each for each in diagnosis(tmp_path, product).notes)


# --- files ------------------------------------------------------------------------------------------------------------


def saved(folder: Path) -> Path:
    made = Maker()
    tiny(made)
    return made.write(folder / "whole.json")


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_ends_early_is_read_and_said_to_be_broken(tmp_path: Path, zipped: bool) -> None:
    content = saved(tmp_path).read_bytes()
    content = gzip.compress(content) if zipped else content
    path = tmp_path / "cut.json"
    path.write_bytes(content[: int(len(content) * 0.7)])
    found = diagnose_trace(path)
    assert found.problems and found.regime == "unknown" and found.remedies == ()
    assert "This trace is broken" in found.details()


@pytest.mark.parametrize(
    "content",
    [b"", b"not json", b"{}", b'{"traceEvents": []}', b'{"traceEvents": [1, 2]}', b"\x1f\x8b broken", b"\xff\xfe"],
)
def test_what_is_no_trace_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "none.json"
    path.write_bytes(content)
    with pytest.raises(TraceFileError, match=r"trace|cannot be read|torch"):
        read_trace(path)
    with pytest.raises(TraceFileError, match="cannot be read"):
        read_trace(tmp_path / "missing.json")


def test_lost_work_and_clocks_that_disagree_are_told(tmp_path: Path) -> None:
    made = Maker()
    tiny(made)
    lost = [each for each in made.events if each["cat"] != "kernel"]
    late = [{**each, "ts": each["ts"] - 1000} if each["cat"] == "kernel" else each for each in made.events]
    orphans = [each for each in made.events if each["cat"] != "cuda_runtime"]
    for name, events, said in (
        ("lost", lost, "lost it"),
        ("late", late, "clocks"),
        ("orphans", orphans, "no launches"),
    ):
        made.events = events
        found = diagnose_trace(made.write(tmp_path / f"{name}.json"))
        assert said in found.problems[0] and found.regime == "unknown"


def test_a_memset_of_no_bytes_is_no_lost_work(tmp_path: Path) -> None:
    """cuDNN's recurrent layers issue one a step, and nothing runs."""
    made = Maker()
    tiny(made)
    launches = [each for each in made.events if each["cat"] == "cuda_runtime"]
    for number, each in enumerate(launches):
        own = {**each, "name": "cudaMemsetAsync", "args": {**each["args"], "correlation": 10**6 + number}}
        made.events.append(own)
    found = diagnose_trace(made.write(tmp_path / "memsets.json"))
    assert launches and not found.problems and found.regime == "overhead"


NESTED = [{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": at, "dur": 10**6 - 2 * at, "tid": 1, "args": {}}
          for at in range(50_000)]  # fmt: skip


def harmful(args: str) -> bytes:
    """A trace of two events, the second with these arguments."""
    event = '{"ph": "X", "cat": "%s", "name": "k", "ts": 1, "dur": 1, "args": %s}'
    both = event % ("cpu_op", "{}"), event % ("cpu_op" if "Dims" in args else "kernel", args)
    return b'{"traceEvents": [%s]}' % ", ".join(both).encode()


READS = """
import resource, sys
from brrr.tracing.trace_file import TraceFileError, read_trace
resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))
for path in sys.argv[1:]:
    try:
        print(f"{path}: ", *read_trace(path).problems)
    except TraceFileError as error:
        print(error)
"""
HARMFUL: list[tuple[Callable[[], bytes], str]] = [
    (lambda: b'{"traceEvents": [' + b"[" * (200 << 20), "nested too deeply"),
    (lambda: b'{"x": ' + b"[" * 1000 + b'{"traceEvents": [' + b"[" * 10**6, "nested too deeply"),
    (lambda: json.dumps({"traceEvents": NESTED}).encode(), "50000 of its events lie around one"),
    (lambda: gzip.compress(b'{"traceEvents": [' + b" " * (200 << 20), 1), "unzipped it has 100 times its size"),
    (lambda: gzip.compress(b'{"traceEvents": [' + b'{"ph": 0},' * (4 << 20), 1), "unzipped it has 100 times"),
    (lambda: b'{"traceEvents": [{"ph": "' + b"x" * (60 << 20), "holds no events"),
    (lambda: harmful('{"Input Dims": [[%s 9]]}' % ("99999999," * 200_000)), "1 of its 2 events"),
    (lambda: harmful('{"Input Dims": [["x", %s "x"]]}' % ("999," * 8)), "1 of its 2 events"),
    (lambda: harmful('{"grid": [%s 9]}' % ("9," * 10**6)), "1 of its 2 events"),
    (lambda: harmful('{"grid": [%s]}' % ("9" * 4000)), "1 of its 2 events"),
    (lambda: harmful('{"stream": %s}' % ("9" * 5000)), "a number of too many digits"),
    (lambda: harmful("{}}" + ', {"a": 0}' * 2000 + ", {"), "damaged behind 2 events: 1001 entries are none"),
]


def test_a_trace_made_to_harm_is_one_clear_error(tmp_path: Path) -> None:
    """In a process that may have no more memory than torch's import and 500 MB."""
    paths = [tmp_path / f"{number}.json" for number in range(len(HARMFUL))]
    for path, (content, _) in zip(paths, HARMFUL, strict=True):
        path.write_bytes(content())
    done = subprocess.run([sys.executable, "-c", READS, *paths], capture_output=True, text=True, check=False)
    for path, said, (_, message) in zip(paths, done.stdout.splitlines(), HARMFUL, strict=True):
        assert said.startswith(f"{path}: ") and message in said, done.stderr[-500:]


def test_more_events_than_are_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MOST_EVENTS", 3)
    found = read_trace(saved(tmp_path))
    assert len(found.events) == 3 and "more than 3 events" in found.problems[0]


def test_another_device_and_none(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert "A100" in diagnose_trace(path, device="datasheet:a100").notes[0]
    with pytest.raises(ArgumentError, match="a GPU, as the trace is of one"):
        diagnose_trace(path, device="datasheet:cpu")
    made = Maker(device="Some Future GPU")
    relu(made)
    unknown = diagnose_trace(made.write(tmp_path / "future.json"))
    assert unknown.regime == "unknown" and any("Some Future GPU" in each for each in unknown.notes)


def test_a_trace_without_sizes_says_so(tmp_path: Path) -> None:
    made = Maker()
    relu(made)
    for event in made.events:
        if event["cat"] == "cpu_op":
            event["args"] = {}
    found = diagnose_trace(made.write(tmp_path / "bare.json"))
    assert found.regime == "unknown" and any("record_shapes=True" in each for each in found.notes)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def not_at_the_end() -> Iterator[None]:
    """What a script finds at the process's end is not for this process, which is the tests'."""
    yield
    atexit.unregister(diagnose._become)


def test_the_command_prints_text_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = saved(tmp_path), tmp_path / "page.html"
    assert main([str(path)]) == 0 and "Overhead-bound" in capsys.readouterr().out
    assert main([str(path), "--device", "h200"]) == 0
    capsys.readouterr()
    assert main(["--json", "--html", str(page), str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["regime"] == "overhead" and sum(found["parts"].values()) == pytest.approx(found["step_s"])
    html = page.read_text(encoding="utf-8")
    assert "Overhead-bound" in html and "<details open>" in html and "http:" not in html and "href=" not in html
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy and {"default-src 'none'", "base-uri 'none'", "form-action 'none'"} <= {*policy[1].split("; ")}
    assert main([str(path), "--json", "--html", str(page)]) == 0, "options may stand behind the path"
    assert json.loads(capsys.readouterr().out)["regime"] == "overhead"
    assert main([str(path), "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "a folder that exists" in capsys.readouterr().err
    assert main([str(tmp_path / "missing.json")]) == 2 and "cannot be read" in capsys.readouterr().err


def test_a_script_is_run_as_python_would(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\nx = torch.randn(64, 64)\nfor _ in range(int(sys.argv[1])):\n    x = torch.relu(x @ x)\n"
        "print('ended', __name__)\nsys.exit(0)\n",
        encoding="utf-8",
    )
    assert main([str(script), "7"]) == 0
    said = capfd.readouterr().out
    assert "ended __main__" in said and "mm float32" in said
    if is_cpu(default_device_kind()):
        assert "the roofline's figures are those of" in said, "a generic one's, if nothing was measured"
        monkeypatch.setattr(assess, "known_here", lambda kind: recorded_peaks("cpu"))
        monkeypatch.setattr(diagnose, "crowded", lambda *_: True)
        assert main([str(script), "7"]) == 0
        said = capfd.readouterr().out
        assert f"those of {recorded_peaks('cpu').device}, measured" in said and "busy-cpu: other" in said


def test_a_script_that_fails_is_diagnosed_as_far_as_it_came(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for ending, said in (("raise KeyError('mine')", "KeyError: 'mine'"), ("sys.exit(3)", "SystemExit: 3")):
        Path("fails.py").write_text(
            f"import os, sys, torch\nos.chdir('/')\ntorch.ones(64, 64) @ torch.ones(64, 64)\n{ending}\n",
            encoding="utf-8",
        )
        assert main(["--html", "page.html", "fails.py"]) == 1
        found = capfd.readouterr()
        assert "mm float32" in found.out and said in found.err and Path("page.html").exists()
    assert Path.cwd() == tmp_path


LOOP = "import torch\nx = torch.ones(512, 512)\nwhile True:\n    x = torch.relu(x @ x)\n"
SLEEPS = "    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass\n"
CAUGHT = f"import time\nfor _ in range(2):\n{SLEEPS}raise SystemExit(7)"


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (None, [], 2, "script.py'; expected a script that exists"),
        ("print(1", [], 1, "SyntaxError: '(' was never closed\nNo torch operator ran"),
        ("import nonexistent", [], 1, "No module named 'nonexistent'\n  SCRIPT, line 1, in <module>\nNo torch"),
        ("raise SystemExit('why')", [], 1, "the script ended by SystemExit: why\nNo torch operator"),
        ("print('hi')", [], 2, "the script ran to its end\nNo torch operator ran in its process: nothing is diagnosed"),
        ("import time\ntime.sleep(600)", ["--seconds", "0.3"], 2, "was ended after 0.3 s; --seconds S gives it longer"),
        (CAUGHT, ["--seconds", "0.3"], 1, "ended by SystemExit: 7"),
        ("", ["--seconds", "nan"], 2, "--seconds is nan; expected a finite number"),
        ("", ["--memory", "inf"], 2, "--memory is inf; expected a finite number"),
        (LOOP, ["--seconds", "0.5"], 0, "was ended after 0.5 s; --seconds S gives it longer\nWhat it did until then"),
        (LOOP, ["--memory", "0"], 0, "GB in memory; --memory GB lets it grow by more\nWhat it did until then"),
        (f"import os, signal\n{LOOP}    os.kill(os.getpid(), signal.SIGINT)\n", [], 130, "was ended by Ctrl-C\nWhat"),
    ],
)  # fmt: skip
def test_how_a_script_ended_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str | None, options: list[str], code: int, said: str
) -> None:
    script, before = tmp_path / "script.py", signal.getsignal(signal.SIGINT)
    if text is not None:
        script.write_text(text, encoding="utf-8")
    assert main([*options, str(script)]) == code
    found = capfd.readouterr()
    assert said.replace("SCRIPT", str(script)) in found.err
    assert ("is told above" in found.err) == ("of a step" in found.out)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (CAUGHT.replace("2", "99"), 2, "was stopped: nothing"),
        ("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(90)", 2, "and was stopped"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(90,)).start()", 0, "was ended after 1 s"),
        ("import sys\nsys.stdout.close()\nsys.stderr.close()", 0, ""),
        ("import os\nos.close(2)\nos._exit(3)", 3, "ended itself by os._exit(3): nothing is diagnosed"),
    ],
)  # fmt: skip
def test_a_script_that_resists_is_ended_too(tmp_path: Path, text: str, code: int, said: str) -> None:
    """In a process of its own, which is what is ended."""
    script = tmp_path / "script.py"
    script.write_text(f"import torch\nx = torch.ones(64) + 1\n{text}\n", encoding="utf-8")
    ours = "import sys\nfrom brrr.cli import diagnose\ndiagnose.GRACE_S = 0.5\nsys.exit(diagnose.main(sys.argv[1:]))"
    command = [sys.executable, "-c", ours, "--seconds", "1", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert ("of a step" in done.stdout) == (code == 0)


def test_options_behind_a_script_are_said_to_be_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, torch\ntorch.ones(64) + 1\nprint(sys.argv[1:])\n", encoding="utf-8"
    )
    assert main([str(tmp_path / "script.py"), "--html=d.html"]) == 0
    found = capfd.readouterr()
    assert "['--html=d.html']" in found.out and "--html=d.html goes to the script; ours stand before" in found.err


INNER = """
import sys, torch
import brrr
from brrr.cli.diagnose import main
def step():
    with torch.profiler.profile():
        torch.ones(64, 64) @ torch.ones(64, 64)
try:
    brrr.diagnose(step, device="cpu", budget_s=0.02)
except brrr.BrrrError as error:
    print("refused:", error)
with torch.profiler.profile() as after:
    torch.ones(3) + 1
print(len(after.events()) > 0, main([sys.argv[1]]))
"""


def test_a_profiler_inside_is_refused_and_does_no_harm(tmp_path: Path) -> None:
    """In a process of its own, for torch would end it (SIGSEGV)."""
    script = tmp_path / "script.py"
    lines = INNER.split("try:")[0].replace("import brrr\n", "").replace("from brrr.cli.diagnose import main\n", "")
    script.write_text(f"{lines}\nstep()\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", INNER, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "refused: this code starts torch's profiler" in done.stdout
    assert "True 1" in done.stdout and "UnavailableError: this code starts torch's profiler" in done.stderr
