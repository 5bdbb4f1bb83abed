"""The doctor on machines that are whole, half set up, too old or broken."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brrr.cli import doctor, inventory
from brrr.core import files
from brrr.gpu import device, probe
from brrr.gpu import probe as clocks
from brrr_course.lessons import course

WHATS = [
    *("Python", "torch", "NVIDIA GPU", "NVIDIA driver", "CUDA", "nvcc", "PyCUDA", "Triton", "nvmath", "CUPTI", "NVML"),
    "C compiler",
]
BROKEN = probe.BrokenError("nvidia-smi fails: couldn't communicate with the NVIDIA driver")


class Machine:
    """A machine to examine: a healthy one with an H200 until a test takes something away."""

    def __init__(self) -> None:
        self.torch: Any = fake_torch()
        self.smi: Any = [("NVIDIA H200", "580.65")]
        self.driver: tuple[int, int] | None = (13, 0)
        self.seen = True
        self.cuda_problem: str | None = None
        self.packages = {"torch": "2.13.0", "pycuda": "2026.1", "triton": "3.6", "nvmath-python": "1.0",
                         "nvidia-ml-py": "13.1"}  # fmt: skip
        self.programs: dict[str, Any] = {"nvcc": "nvcc\nrelease 13.0, V13.0.88\nbuild", "cc": "cc 12.2\nCopyright"}

    def module(self, name: str) -> Any:
        if name.split(".")[0] not in self.packages:
            raise probe.ProbeError("not installed")
        return SimpleNamespace()

    def package_version(self, *names: str) -> str:
        for name in names:
            if name in self.packages:
                return self.packages[name]
        raise probe.ProbeError("not installed")

    def output(self, command: str, *arguments: str, timeout_s: float = 2.0) -> str:
        return str(self._answer(self.programs.get(Path(command).name, probe.ProbeError(f"{command} is not there"))))

    def nvidia_smi(self) -> Any:
        return self._answer(self.smi)

    def torch_module(self) -> Any:
        return self._answer(self.torch)

    @staticmethod
    def _answer(value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value


def fake_torch(cuda: str | None = "13.0", capability: tuple[int, int] = (9, 0)) -> SimpleNamespace:
    device = SimpleNamespace(
        is_available=lambda: True, get_arch_list=lambda: ["sm_75", "sm_80", "sm_90"],
        get_device_capability=lambda: capability, get_device_name=lambda: "NVIDIA GeForce GTX 1070",
    )  # fmt: skip
    profiler = SimpleNamespace(ProfilerActivity=SimpleNamespace(CUDA="CUDA"), supported_activities=lambda: {"CUDA"})
    version, name = SimpleNamespace(cuda=cuda, hip=None), "2.13.0" if cuda else "2.13.0+cpu"
    return SimpleNamespace(__version__=name, version=version, cuda=device, profiler=profiler)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    here = Machine()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    for name in ("module", "package_version", "output", "nvidia_smi", "torch_module"):
        monkeypatch.setattr(probe, name, getattr(here, name))
    monkeypatch.setattr(probe, "driver_cuda", lambda: here.driver)
    monkeypatch.setattr(probe, "gpu_seen", lambda: here.seen)
    monkeypatch.setattr(device, "cuda_problem", lambda: here.cuda_problem)
    monkeypatch.setattr(clocks, "driver_version", lambda: None)
    monkeypatch.setattr(inventory.shutil, "which", lambda name: f"/bin/{name}" if name in here.programs else None)
    monkeypatch.setattr(inventory.importlib.util, "find_spec", lambda name: name if name in here.packages else None)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(inventory.platform, "release", lambda: "6.1")
    monkeypatch.setattr(inventory.device, "this_device", lambda kind: h200())
    return here


def h200() -> device.Device:
    return device.Device("cuda", "NVIDIA H200", "h200", compute_capability=(9, 0), hardware=device.hardware("h200"))


def examine() -> tuple[doctor.Report, dict[str, inventory.Row]]:
    report = doctor.doctor()
    assert [row.what for row in report.rows] == WHATS
    return report, {row.what: row for row in report.rows}


def test_healthy_machine(machine: Machine) -> None:
    report, row = examine()
    assert {one.status for one in report.rows} == {"found"}
    assert report.cuda
    assert row["NVIDIA GPU"].seen == "NVIDIA H200, compute capability 9.0, datasheet known"
    assert row["NVIDIA driver"].seen == "580.65, runs CUDA up to 13.0"
    assert row["nvcc"].seen == "release 13.0, V13.0.88"
    assert report.advice == doctor.Advice(None, "Nothing is missing: everything runs live.")


def set_up(machine: Machine, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(machine, name, value)


BOTH_BUILT = "torch 2.13.0+cpu is built without CUDA, though NVIDIA H200 is here"
OLD_DRIVER = "the NVIDIA driver is too old: it runs CUDA up to 12.8"
WHEELS = "--force-reinstall torch==2.13.0 --index-url https://download.pytorch.org/whl/cu130"


def without_gpu(machine: Machine) -> None:
    gone = probe.ProbeError("nvidia-smi is not on the PATH")
    set_up(machine, seen=False, smi=gone, driver=None, cuda_problem="there is no NVIDIA GPU")


def cpu_build(machine: Machine, driver: tuple[int, int]) -> None:
    set_up(machine, torch=fake_torch(cuda=None), driver=driver, cuda_problem=BOTH_BUILT)


def old_gpu(machine: Machine) -> None:
    old = fake_torch(capability=(6, 1))
    set_up(machine, torch=old, smi=[("NVIDIA GeForce GTX 1070", "580.65")], cuda_problem=device.too_old_gpu(old))


def broken_driver(machine: Machine) -> None:
    set_up(machine, smi=BROKEN, driver=None, cuda_problem=f"its driver does not answer: {BROKEN}")


NOTHING = ("NVIDIA GPU", "NVIDIA driver", "CUDA", "PyCUDA")
MACHINES: dict[str, tuple[Callable[[Machine], object], dict[str, str], str | None, str]] = {
    "no GPU": (
        lambda m: (without_gpu(m), set_up(m, torch=fake_torch(cuda=None))), dict.fromkeys(NOTHING, "missing"), None,
        "No command adds a GPU",
    ),
    "no compiler": (
        lambda m: (without_gpu(m), m.programs.pop("cc")), {"C compiler": "missing"},
        "sudo apt-get install build-essential", "",
    ),
    "no torch": (
        lambda m: set_up(m, torch=probe.ProbeError("not installed"), cuda_problem="torch is not installed"),
        {"torch": "missing", "NVIDIA GPU": "found"}, "-m pip install --upgrade torch", "",
    ),
    "torch broken": (
        lambda m: set_up(m, torch=probe.BrokenError("does not load"), cuda_problem="torch does not load"),
        {"torch": "problem", "CUDA": "problem"}, "", "",
    ),
    "CPU build": (lambda m: cpu_build(m, (13, 1)), {"CUDA": "problem"}, WHEELS, ""),
    "CPU build, older driver": (lambda m: cpu_build(m, (12, 8)), {"CUDA": "problem"}, "/whl/cu126", ""),
    "old driver": (
        lambda m: set_up(m, driver=(12, 8), cuda_problem=OLD_DRIVER), {"NVIDIA driver": "problem"}, "/whl/cu126", "",
    ),
    "old GPU": (old_gpu, {"CUDA": "problem"}, "/whl/cu126", ""),
    "broken driver": (broken_driver, dict.fromkeys(NOTHING[:3], "problem"), "", "driver"),
    "all but nvcc": (
        lambda m: m.programs.pop("nvcc"), {"nvcc": "missing", "PyCUDA": "found"}, None, "Nothing is missing",
    ),
    "no nvcc": (
        lambda m: (m.packages.pop("pycuda"), m.programs.pop("nvcc")), {"nvcc": "missing", "PyCUDA": "missing"},
        "sudo apt-get install nvidia-cuda-toolkit", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_that_lacks_something(machine: Machine, name: str) -> None:
    spoil, statuses, command, why = MACHINES[name]
    spoil(machine)
    report, row = examine()
    assert {what: row[what].status for what in statuses} == statuses
    assert report.advice.command is None if command is None else (report.advice.command or "").endswith(command)
    assert why in report.advice.why and report.cuda == (machine.cuda_problem is None)


def test_driver_too_old_for_this_torch(machine: Machine) -> None:
    machine.driver = (12, 4)
    machine.cuda_problem = "the NVIDIA driver is too old: it runs CUDA up to 12.4, torch needs 13.0"
    report, row = examine()
    assert row["NVIDIA driver"].status == "problem"
    assert "580.65; the NVIDIA driver is too old: it runs CUDA up to 12.4" in row["NVIDIA driver"].seen
    assert report.advice.command is None
    assert "nvidia.com/drivers" in report.advice.why
    machine.programs["ubuntu-drivers"] = ""
    assert doctor.doctor().advice.command == "sudo ubuntu-drivers install"


def test_a_hidden_gpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    machine.cuda_problem = "CUDA_VISIBLE_DEVICES is '-1', which hides every GPU"
    assert doctor.doctor().advice.command == "unset CUDA_VISIBLE_DEVICES"


def test_missing_libraries_are_one_command(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pycuda", "nvmath-python"):
        del machine.packages[name]
    report, row = examine()
    assert row["CUPTI"].seen == "through torch.profiler"
    assert row["PyCUDA"].status == "missing"
    assert (report.advice.command or "").endswith("-m pip install pycuda nvmath-python")
    monkeypatch.setenv("CONDA_PREFIX", sys.prefix)
    assert doctor.doctor().advice.command == "conda install -c conda-forge pycuda nvmath-python"


def test_every_check_may_fail(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of them may take the table down, whatever it raises."""

    def explode(*args: object, **kwargs: object) -> Any:
        raise ZeroDivisionError("boom\nmore")

    for name in ("module", "package_version", "output", "nvidia_smi", "torch_module", "driver_cuda", "gpu_seen"):
        with monkeypatch.context() as alone:
            alone.setattr(probe, name, explode)
            report, row = examine()
        assert report.cuda and row["Python"].status == "found", "the others are as they were"
        monkeypatch.setattr(probe, name, explode)
    for owner, name in ((device, "cuda_problem"), (device, "this_device"), (clocks, "driver_version")):
        monkeypatch.setattr(owner, name, explode)
    for owner, name in ((course, "lessons"), (doctor, "advise"), (inventory.platform, "python_version")):
        monkeypatch.setattr(owner, name, explode)
    report, row = examine()
    assert row["Python"].seen == "the check itself fails: boom"
    assert row["nvmath"].status == "problem"
    assert not report.cuda
    assert "boom" in str(report)
    assert "boom" in report._repr_html_()


# ----------------------------------------------------------------------------------------------------------------------
# An accelerator without CUDA


def with_accelerator(machine: Machine, kind: str, problem: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(machine)
    for module in (inventory, doctor):
        monkeypatch.setattr(module, "gpu_here", lambda: kind)
    monkeypatch.setattr(device, "accelerator_problem", lambda kind: problem)
    monkeypatch.setattr(inventory, "sees", lambda kind: kind == "xpu")
    monkeypatch.setattr(device, "this_device", lambda kind: device.Device(kind, f"A GPU ({kind.upper()})", kind))


@pytest.mark.parametrize(
    ("kind", "events", "profiler"), [("mps", "not trusted", "does not see it"), ("xpu", "untried", "sees it")]
)
@pytest.mark.parametrize("problem", [None, "a first addition on it fails: out of resources"])
def test_it_has_a_row_and_is_no_reason_to_look_for_another(
    kind: str, events: str, profiler: str, problem: str | None, machine: Machine, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with_accelerator(machine, kind, problem, monkeypatch)
    report = doctor.doctor()
    assert [row.what for row in report.rows] == [*WHATS, "accelerator"]
    row = report.rows[-1]
    fine = f"A GPU ({kind.upper()}): a first addition is right, events {events}, profiler {profiler}"
    assert (row.status, row.seen) == (("problem", f"{kind}: {problem}") if problem else ("found", fine))
    assert report.accelerator == (None if problem else kind) and not report.cuda
    assert report.advice.command is None and "NVIDIA" not in report.advice.why
    assert "Nobody ran" in report.advice.why and "`brrr doctor --report`" in report.advice.why
    wanted = {kind: int(problem is not None), "cuda": 1, "rocm": 1}
    assert {each: doctor.main(["--require", each, "--json"]) for each in wanted} == wanted
    answers = capsys.readouterr().out.split("\n{")
    assert len(answers) == len(wanted) and json.loads(answers[0])["accelerator"] == report.accelerator


def test_a_kind_that_nobody_knows_is_refused(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        doctor.main(["--require", "tpu"])
    assert ended.value.code == 2 and device.accelerators() in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------------------
# Lessons


def notebook(folder: Path, name: str, needs: object = None, **more: object) -> None:
    metadata = {} if needs is None else {"brrr": {"needs": needs, **more}}
    text = json.dumps({"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})
    (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")


def states(folder: Path, *fine: str) -> dict[str, str]:
    return {one.name: one.state for one in course.lessons(folder, lambda row: row in fine)}


def test_a_lesson_is_live_as_far_as_what_it_needs_is_there(tmp_path: Path) -> None:
    notebook(tmp_path, "00_start_here", [])
    notebook(tmp_path, "01_async_timing")
    notebook(tmp_path, "05_fusion", ["cuda", "triton"])
    notebook(tmp_path, "99_own", ["torch"])
    names = ("00_start_here", "01_async_timing", "05_fusion", "99_own")
    for there, expected in (((), ("live", "replayed", "replayed", "replayed")),
                            (("torch",), ("live", "partly live", "partly live", "live")),
                            (("torch", "CUDA"), ("live", "live", "partly live", "live"))):  # fmt: skip
        assert states(tmp_path, *there) == dict(zip(names, expected, strict=True))
    (fusion,) = (one for one in course.lessons(tmp_path, lambda row: row != "Triton") if one.name == "05_fusion")
    assert "where Triton would be needed" in fusion.note
    assert "problem" not in states(files.share("notebooks")).values()


def test_without_a_gpu_a_line_says_what_a_cpu_adds(tmp_path: Path) -> None:
    notebook(tmp_path, "06_killing_overhead", ["cuda", "pycuda"])
    notebook(tmp_path, "10_diagnose", ["cuda"], cpu=False)
    notebook(tmp_path, "14_two_gpus", ["cuda", "two_gpus"])
    lines = course.Lessons(course.lessons(tmp_path, lambda row: row == "torch")).lines()
    recorded = "GPU figures from the recording; BRRR_SOURCE=cpu measures"
    many = f"06_killing_overhead ({recorded} what runs on a CPU)"
    assert lines == [
        f"Partly live: {many}; 14_two_gpus ({recorded} two processes on the CPU).",
        "Replayed from recordings: 10_diagnose (recorded figures; a CPU runs none of its experiments).",
    ]


def test_an_accelerator_without_cuda_runs_some_lessons_live(tmp_path: Path) -> None:
    notebook(tmp_path, "05_fusion", ["cuda", "triton"])
    notebook(tmp_path, "10_diagnose", ["cuda"], cpu=False)
    notebook(tmp_path, "10b_memory_swap", ["cuda"], cpu=False)
    lines = course.Lessons(course.lessons(tmp_path, {"torch", "accelerator"}.__contains__)).lines()
    assert [line.partition(" (")[0] for line in lines] == [
        "Partly live: 05_fusion, 10_diagnose", "Replayed from recordings: 10b_memory_swap",
    ]  # fmt: skip
    there = {path.stem.partition("_")[0] for path in files.share("notebooks").glob("*.ipynb")}
    assert {*course.ELSEWHERE} <= there


@pytest.mark.parametrize("text", ["", "{", "[]", '{"metadata": 3}', '{"metadata": {"brrr": {"needs": ["gpu"]}}}'])
def test_damaged_notebook_is_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "01_async_timing.ipynb").write_text(text, encoding="utf-8")
    assert states(tmp_path, "torch")["01_async_timing"] == "problem"


# ----------------------------------------------------------------------------------------------------------------------
# The command


def test_the_command_prints_each_row_as_text_html_or_json(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--require", "cuda"]) == 0
    capsys.readouterr()
    assert doctor.main(["--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["what"] for row in answer["rows"]] == WHATS
    assert (answer["cuda"], answer["advice"]["command"]) == (True, None)
    without_gpu(machine)
    assert (doctor.main(["--require", "cuda"]), doctor.main([])) == (1, 0)
    for text in (capsys.readouterr().out, examine()[0]._repr_html_()):
        assert all(each in text for each in (*WHATS, "there is no NVIDIA GPU", "Partly live: "))


@pytest.mark.parametrize("torch", [True, False])
def test_this_machine(torch: bool) -> None:
    """In a process of its own, as it is and without torch."""
    code = "import sys; from brrr.cli import doctor; raise SystemExit(doctor.main([]))"
    lacking = "" if torch else "import sys; sys.modules['torch'] = None; "
    done = subprocess.run([sys.executable, "-c", lacking + code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("torch"))
    assert ("no" in line.split()[:2]) is not torch
