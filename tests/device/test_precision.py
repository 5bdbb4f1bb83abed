"""The one switch for TF32 under each of torch's ways to set it: what uses it works and leaves the setting as it was."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import brrr
import brrr_course
from brrr.core.errors import BrrrError
from brrr.core.measurement import Point
from brrr.gpu.precision import float32_products, float32_recurrence, in_full_precision
from brrr.networks import Weights, best
from brrr.networks.network import Network
from brrr.networks.recurrent import rung
from brrr.networks.torch_implementations import in_precision, module
from brrr.strassen import StrassenMLP, matmul
from brrr_course.experiments import experiment
from brrr_course.experiments.rnn import MAKERS, RecurrentInputs
from brrr_course.sources.timers import measure_point

B: Any = torch.backends
WAYS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "everywhere": lambda: setattr(B, "fp32_precision", "tf32"),
    "everywhere-ieee": lambda: setattr(B, "fp32_precision", "ieee"),
    "everywhere-bf16": lambda: setattr(B, "fp32_precision", "bf16"),
    "cuda": lambda: setattr(B.cudnn, "fp32_precision", "tf32"),
    "matmul": lambda: setattr(B.cuda.matmul, "fp32_precision", "tf32"),
    "matmul-ieee": lambda: setattr(B.cuda.matmul, "fp32_precision", "ieee"),
    "conv": lambda: setattr(B.cudnn.conv, "fp32_precision", "ieee"),
    "cpu-bf16": lambda: setattr(B.mkldnn.matmul, "fp32_precision", "bf16"),
    "highest": lambda: torch.set_float32_matmul_precision("highest"),
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "allow": lambda: setattr(B.cuda.matmul, "allow_tf32", True),
    "allow-not": lambda: setattr(B.cuda.matmul, "allow_tf32", False),
    "cudnn-allow-not": lambda: setattr(B.cudnn, "allow_tf32", False),
    "older-then-newer": lambda: (WAYS["allow"](), WAYS["matmul-ieee"]()),
    "medium-then-allow-not": lambda: (WAYS["medium"](), WAYS["allow-not"]()),
    "everywhere-and-matmul": lambda: (WAYS["everywhere"](), WAYS["matmul"]()),
    "everywhere-but-matmul": lambda: (WAYS["everywhere"](), WAYS["allow-not"]()),
}
KEYS = [("generic", "all"), *((b, op) for b in ("cuda", "mkldnn") for op in ("all", "matmul", "conv", "rnn"))]
read, write = torch._C._get_fp32_precision_getter, torch._C._set_fp32_precision_setter
FRESH = {key: read(*key) for key in KEYS}
"""As a process starts: cuDNN's layers in TF32 by a setting of their own."""


def older() -> list[Any]:
    """What the older interface says, or that it refuses to."""
    found: list[Any] = []
    for ask in (torch.get_float32_matmul_precision, lambda: B.cuda.matmul.allow_tf32, lambda: B.cudnn.allow_tf32):
        try:
            found.append(ask())
        except RuntimeError:
            found.append("refuses")
    return found


def everything() -> list[Any]:
    """All settings by both interfaces, and which of them would follow a wider one."""
    found = [older(), [read(*key) for key in KEYS]]
    wider = ("generic", "all"), ("cuda", "all")
    before = []
    for key in wider:  # the second shows its own setting once the first is "none"
        before.append(read(*key))
        for value in ("ieee", "tf32", "none"):
            write(*key, value)
            found.append([read(*each) for each in KEYS])
    for key, value in zip(wider, before, strict=True):
        write(*key, value)
    return found


@pytest.fixture(params=WAYS)
def setting(request: pytest.FixtureRequest) -> Iterator[str]:
    """torch as it starts, then set in one of its ways; what the test does must leave that as it is."""
    _start()
    WAYS[request.param]()
    before = everything()
    yield request.param
    after = everything()
    _as_fresh()
    assert after == before


def _start() -> None:
    torch.set_float32_matmul_precision("highest")
    B.cudnn.allow_tf32 = True
    for key in KEYS:
        write(*key, "none")


def _as_fresh() -> None:
    _start()
    for key, value in FRESH.items():
        write(*key, value)


@pytest.mark.parametrize("tf32", [False, True])
def test_inside_both_interfaces_say_what_was_asked_for(setting: str, tf32: bool) -> None:
    with suppress(KeyboardInterrupt), float32_products(tf32):
        assert older()[:2] == ["high" if tf32 else "highest", tf32]
        assert (B.cuda.matmul.fp32_precision == "tf32") is tf32 and B.mkldnn.matmul.fp32_precision != "bf16"
        assert in_full_precision() is not tf32
        with float32_products(not tf32):
            assert older()[:2] == ["highest" if tf32 else "high", not tf32]
        assert older()[1] is tf32
        raise KeyboardInterrupt


def test_inside_cudnn_takes_no_tf32_for_recurrent_layers(setting: str) -> None:
    with suppress(KeyboardInterrupt), float32_products(), float32_recurrence(), float32_recurrence():
        assert read("cuda", "rnn") == read("cuda", "conv") == "ieee" and B.cudnn.allow_tf32 is False
        raise KeyboardInterrupt
    with float32_recurrence(), float32_recurrence(tf32=True):
        assert read("cuda", "rnn") == "tf32" and B.cudnn.allow_tf32 is True
    x = torch.randn(3, 2, 4)
    assert rung("cudnn", torch.nn.LSTM(4, 4), x)().shape == x.shape


def test_products_and_networks(setting: str) -> None:
    a, b = torch.randn(96, 96), torch.randn(96, 96)
    found = matmul(a, b, accuracy=1e-5)
    assert float((found.double() - a.double() @ b.double()).norm() / found.norm()) < 1e-5
    wanted = torch.addmm(a[0].double(), a.double(), b.T.double()).relu()  # no setting rounds float64
    torch.testing.assert_close(StrassenMLP.of([b], [a[0]])(a).double(), wanted, atol=1e-3, rtol=0)
    with best(1, 8, 32, device="cpu") as network:
        assert tuple(network(a[:8, :32].clone()).shape) == (8, 32)


def test_a_network_multiplies_as_it_says(setting: str) -> None:
    weights = Weights.random(Network(1, 2, 8), "cpu")
    seen: list[bool] = []

    def run() -> torch.Tensor:
        seen.append(in_full_precision())
        return weights.x

    in_precision(run, weights)()
    assert seen == [True]
    assert weights.error(module(weights)()) <= weights.tolerance


@pytest.mark.parametrize(("name", "variants", "point"), [
    ("matmul", ["cpu", "queue"], {"size": 64}),
    ("strassen", ["cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-fp16x3"], {"size": 128}),
    ("mlp", ["cpu-module", "cpu-functional"], {"layers": 1, "batch": 2, "hidden": 128}),
    ("rnn", ["cpu"], {"batch": 2, "hidden": 16, "steps": 3, "cell": "lstm", "dtype": "float32"}),
    ("rnn_ladder", ["cpu-naive", "cpu-cudnn"],
     {"batch": 2, "hidden": 16, "layers": 1, "steps": 3, "cell": "lstm", "dtype": "float32"}),
])  # fmt: skip
def test_experiments(setting: str, name: str, variants: list[str], point: Point) -> None:
    found = measure_point(experiment(name), variants, point, budget_s=0.005)
    assert {variant: str(ran) for variant, ran in found.items() if isinstance(ran, BrrrError)} == {}


def test_a_workload_on_its_own(setting: str) -> None:
    point: Point = {"batch": 2, "hidden": 16, "steps": 3, "cell": "rnn_tanh", "dtype": "float32"}
    made = experiment("rnn").workload("cpu", point)
    assert made.check() <= made.tolerance
    given = RecurrentInputs.of("rnn_tanh", 16, 2, 3, "float32", "cpu")
    for way in ("cudnn", "cudnn-pad8", "train-cudnn"):
        assert MAKERS[way](given)() is not None


def test_no_workload_asks_torch_for_what_it_may_refuse() -> None:
    """`cudnn.flags` and the older settings raise where the user has set the newer: `brrr.gpu.precision` does not."""
    told = re.compile(r"cudnn\.flags|allow_tf32|float32_matmul_precision|fp32_precision")
    found = [
        str(path) for path in Path(brrr_course.__file__).parent.rglob("*.py") if told.search(path.read_text("utf-8"))
    ]
    assert [each for each in found if not each.endswith("experiments/first_call.py")] == [], (
        "that runs in its own process"
    )


@pytest.mark.parametrize("setting", ["everywhere", "matmul", "medium"], indirect=True)
def test_calibration(setting: str) -> None:
    found = brrr.calibrate("cpu", quick=True, budget_s=1)
    assert found.measured
