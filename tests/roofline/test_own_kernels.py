"""Products of 8 and 4 bits beside the recording `bits`: stored bytes, the type that multiplies, how far off it is."""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

import brrr
from brrr.counting.cost import Cost
from brrr.counting.description import Description, array
from brrr.gpu.datasheet import hardware
from brrr.roofline.device_model import model_of
from brrr.roofline.own_kernels import own_kernel
from brrr.roofline.peaks import MissingPeakError
from brrr.roofline.terms import modelled_time
from brrr_course import Recorded
from brrr_course.experiments import experiment
from brrr_course.experiments.bits import GROUP, IMPLEMENTATIONS, ORDINARY, ROTATED_BYTES, sizes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "predictor_kernels.md"
BITS, SOURCE = experiment("bits"), Recorded("h100")
HELD_OUT = 8192
FP8, BF16 = "float8_e4m3fn", "bfloat16"
Given = Callable[[int, int], tuple[Any, tuple[Description, ...]]]


def packed(x: torch.Tensor, w: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The GPU's operator, also where there is none."""
    found: torch.Tensor = torch.ops.aten._weight_int4pack_mm(x, w[0], GROUP, w[1])
    return found


CALLS = {**{way: IMPLEMENTATIONS[way].call for way in ("bf16", "fp8", "fp8-rows", "int8", "int8-both")}, "int4": packed}
GIVEN: Mapping[str, Given] = {
    "bf16": lambda n, w: (array((n, w), BF16), (array((w, w), BF16),)),
    "fp8": lambda n, w: ((array((n, w), FP8), array((1, 1))), (array((w, w), FP8), array((1, 1)))),
    "fp8-rows": lambda n, w: ((array((n, w), FP8), array((n, 1))), (array((w, w), FP8), array((1, w)))),
    "int8": lambda n, w: (array((n, w), BF16), (array((w, w), "int8"), array((w,), BF16))),
    "int8-both": lambda n, w: ((array((n, w), "int8"), array((1, 1))), (array((w, w), "int8"), array((1, 1)))),
    "int4": lambda n, w: (array((n, w), BF16), (array((w // 8, w // 128, 32, 4), "int32"),
                                                array((w // GROUP, w, 2), BF16))),
}  # fmt: skip


@cache
def layer(way: str, tokens: int, width: int) -> Cost:
    """As it was recorded: each call with the weights of another layer, so that they come from the memory."""
    return replace(brrr.cost(CALLS[way], *GIVEN[way](tokens, width)), working_set_bytes=float(ROTATED_BYTES))


def predicted_s(way: str, tokens: int, width: int, device: str) -> float:
    found = brrr.predict(layer(way, tokens, width), device=device).busy_s
    assert found is not None
    return found


def roofline_s(way: str, tokens: int, width: int) -> float:
    made, h100 = layer(way, tokens, width), hardware("h100")
    peak = {"fp8": "fp8", "fp8-rows": "fp8", "int8-both": "int8"}.get(way, "bf16")
    return max(made.bytes / h100.memory_bytes_per_s, made.flop / h100.peak(peak))


def far(way: str, seconds: Callable[[str, int, int], float], width: int = 0) -> str:
    """Median and 90th percentile of the errors against the kernels' own times."""
    found = []
    for at, made in SOURCE.rows(BITS, way).items():
        point = dict(zip([axis.name for axis in BITS.axes], at, strict=True))
        asked = point["inputs"] == ORDINARY and point["width"] in (width, width or point["width"])
        if asked and made.measurement.kernel_s:
            found.append(abs(seconds(way, *sizes(point)) / made.measurement.kernel_s.median - 1))
    assert len(found) >= 9
    found.sort()
    ends = statistics.median(found), found[math.ceil(0.9 * len(found)) - 1]
    return " / ".join(f"{100 * each:.{1 if each < 0.0995 else 0}f}" for each in ends) + " %"


@pytest.mark.parametrize("way", CALLS)
def test_the_page_says_how_far_off_each_way_is(way: str) -> None:
    here, sheet = (partial(predicted_s, device=device) for device in ("h100", "datasheet:h100"))
    line = " | ".join((far(way, here), far(way, here, HELD_OUT), far(way, sheet), far(way, roofline_s)))
    assert f" | {line} |\n" in PAGE.read_text(encoding="utf-8"), line


@pytest.mark.parametrize(
    ("way", "weight_bytes", "dtype"),
    [("bf16", 2, BF16), ("fp8", 1, FP8), ("int8", 1 + 2 / 1024, BF16), ("int4", 0.5 + 4 / GROUP, BF16)],
)
def test_bytes_are_those_that_are_stored_and_the_type_is_the_one_that_multiplies(
    way: str, weight_bytes: float, dtype: str
) -> None:
    made = layer(way, 16, 1024)
    ends = 16 * 1024 * (1 if way == "fp8" else 2) + 16 * 1024 * 2
    assert made.bytes == pytest.approx(1024 * 1024 * weight_bytes + ends, abs=8)
    assert [each.dtype for each in made.matmuls] == [dtype] and made.flop == pytest.approx(2 * 16 * 1024**2, rel=1e-3)


@pytest.mark.parametrize("device", ["datasheet:l40s", "datasheet:rtx-4090", "datasheet:b200", "datasheet:h100"])
def test_many_tokens_go_by_the_peak_of_the_type_that_multiplies(device: str) -> None:
    """On devices that nobody measured fp8 is near twice bf16's speed, and weights alone gain nothing."""
    seconds = {way: predicted_s(way, 16384, 8192, device) for way in ("bf16", "fp8", "int8", "int4")}
    sheet = hardware(device.partition(":")[2])
    assert seconds["bf16"] / seconds["fp8"] == pytest.approx(sheet.peak("fp8") / sheet.peak("bf16"), rel=0.15)
    assert seconds["int4"] > seconds["bf16"] and seconds["int8"] > seconds["bf16"]


def test_a_device_without_tensor_cores_for_fp8_says_so() -> None:
    with pytest.raises(MissingPeakError, match=r"A100 SXM 80 GB gives no matmul\.fp8"):
        predicted_s("fp8", 64, 1024, "datasheet:a100")
    assert predicted_s("int4", 1, 1024, "datasheet:a100") > 0


def test_one_scale_and_scales_by_rows_are_kernels_apart() -> None:
    """Whichever side has them, for one token too; what is no such product has no kernel of its own."""
    one, rows, token = (
        layer(way, n, 1024).operators[-1] for way, n in (("fp8", 64), ("fp8-rows", 64), ("fp8-rows", 1))
    )
    names = [found.name for each in (one, rows, token) if (found := own_kernel(each)) is not None]
    assert names == ["aten._scaled_mm", *["aten._scaled_mm, rows"] * 2]
    assert own_kernel(layer("bf16", 64, 1024).operators[-1]) is None


def test_a_long_sum_takes_its_time_however_few_results_there_are() -> None:
    """int8's kernel has a thread for each result."""
    model = model_of("h100")
    short, long = (layer("int8", 1, width).operators[-1] for width in (1024, 4096))
    times = [modelled_time(each, model, each.bytes, host_s=0.0).compute_s for each in (short, long)]
    assert times[1] == pytest.approx(4 * times[0]) and times[0] > 1024 * 50 / 1.98e9


class Packed(torch.Tensor):
    """Weights in int8 that unpack themselves, as libraries store them."""

    stored: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, stored: torch.Tensor, scale: torch.Tensor) -> "Packed":
        found = torch.Tensor._make_wrapper_subclass(cls, stored.shape, dtype=scale.dtype, device=stored.device)
        found.stored, found.scale = stored, scale
        return found  # type: ignore[no-any-return]

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["stored", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], *_: object) -> "Packed":
        return Packed(parts["stored"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Packed(args[0].stored, args[0].scale)  # torch detaches it

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            return args[0] @ args[1].stored.to(args[0].dtype).t() * args[1].scale.flatten()
        return super().__torch_function__(func, types, args, kwargs)


def test_a_librarys_weights_count_by_what_they_store() -> None:
    module = torch.nn.Linear(256, 256, bias=False).to(torch.bfloat16)
    stored, scale = torch.zeros(256, 256, dtype=torch.int8), torch.ones(256, 1, dtype=torch.bfloat16)
    module.weight = torch.nn.Parameter(Packed(stored, scale), requires_grad=False)
    made = brrr.cost(module, torch.zeros(4, 256, dtype=torch.bfloat16))
    assert made.bytes == 256 * 256 + 2 * 256 + 2 * 2 * 4 * 256 and [each.dtype for each in made.matmuls] == [BF16]
