"""What is imported without loading what is heavy: a table of code, and what it must not load."""

import subprocess
import sys

import pytest

TORCH = ("torch", "matplotlib", "pandas", "ipywidgets", "IPython", "triton")
READING = """from brrr_course.sources.recorded import Recorded
from brrr_course.experiments import experiment
assert Recorded("h200").known(experiment("matmul"), "gpu")"""
HEAVY = ("torch", "triton", "pycuda", "matplotlib", "pandas", "numpy", "ipywidgets", "cupti", "pynvml")
JUDGING = """from brrr_course.lessons.claims_table import claims
assert claims("matmul", "recorded:h200").rows"""
MARKING = """from brrr_course import check, drawing
check("06-divide", gtx1070=1, h200=1)
drawing("call-life", source="recorded:h200", function="relu-64x1024")"""
MOVING = """from brrr_course.view.explorer import explore
shown = [explore(name, source="recorded:h200", predict=True) for name in ("unary", "cos_cos", "repeat", "strides")]
assert all(each.predictions and each.scene.predicted_data for each in shown)"""
LIGHT = [
    ("import brrr, brrr_course.sources.record; from brrr.core.heavy import np, torch", HEAVY),
    ("import brrr_course.sources.recorded, brrr_course.lessons.claims_table", HEAVY),
    ("import brrr_course.sources, brrr_course.sources.live", HEAVY),
    ("from brrr_course.experiments import NAMES, experiment; [experiment(name) for name in NAMES]", HEAVY),
    (JUDGING, HEAVY),
    ("import brrr.tracing.tracer, brrr.strassen", (*TORCH, "numpy")),
    ("import brrr.strassen.planner, brrr.strassen as s; s.IMPLEMENTATIONS, s.plan", TORCH),
    ("import brrr.networks as n; n.IMPLEMENTATIONS['graph'], n.Network(1, 1, 1).cost", TORCH),
    ("from brrr.counting.cost import Cost; import brrr.counting.description as d; d.array(8); repr(Cost(1, 2))", TORCH),
    ("from brrr import Cost, predict; predict(Cost(1, 1), device='datasheet:h200')", (*TORCH, "numpy")),
    ("import brrr.roofline.calibrate, brrr.cli.calibrate, brrr.cli.doctor", TORCH),
    ("from brrr.gpu.device import this_device; this_device('cpu')", TORCH),
    (READING, (*TORCH, "numpy")),
    ("import brrr_course.view.explorer, brrr_course.view.factory", TORCH),
    (MOVING, ("torch",)),
    (MARKING, ("torch",)),
]


def loaded(code: str) -> set[str]:
    asked = f"{code}\nimport sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(("code", "heavy"), LIGHT)
def test_nothing_heavy_is_loaded(code: str, heavy: tuple[str, ...]) -> None:
    assert not loaded(code) & {*heavy}


def test_importing_it_takes_no_second() -> None:
    """Five times its target of 0.2 s, of the best of three."""
    code = "import time; start = time.perf_counter(); import brrr; print(time.perf_counter() - start)"
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3))
    assert min(float(run.stdout) for run in runs) < 1
