"""Runs the Triton kernel of `repeat` in Triton's interpreter on the CPU and prints its errors, for `test_repeat.py`.

A process of its own, for the interpreter must be chosen before Triton is loaded.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from brrr.kernels.repeat import repeat_multiply
from brrr_course.experiments.repeat import fused_error

COUNTS = (1, 3, 1023, 1024, 1025, 4099)
REPEATS = (0, 1, 15, 16, 17, 100)
TYPES = ("float32", "bfloat16", "float16")


def main() -> None:
    torch.manual_seed(int(sys.argv[1]))
    errors = {}
    for dtype in TYPES:
        for count in COUNTS:
            for repeat in REPEATS:
                for addend in (None, 2**-7):
                    few = torch.rand(count) + 0.5  # a sum that nearly cancels would have no relative precision
                    x = (few if count < 1000 else torch.randn(count)).to(getattr(torch, dtype))
                    out = torch.full_like(x, float("nan"))
                    result = repeat_multiply(x, repeat, 1 + 2**-7, addend, out)
                    assert result is out
                    error = fused_error(x, 1 + 2**-7, addend, repeat)(result)
                    errors[f"{count} elements, {repeat} steps, {'mul' if addend is None else 'fma'}, {dtype}"] = error
    x = torch.randn(3, 5)
    empty = repeat_multiply(torch.empty(0), 3, 2.0)
    special = {
        "a shape": torch.allclose(repeat_multiply(x, 2, 2.0), 4 * x),
        "in place": repeat_multiply(x, 1, 2.0, None, x) is x,
        "nothing": empty.numel() == 0,
        "NaN stays": bool(repeat_multiply(torch.tensor([float("nan"), 1.0]), 2, 2.0).isnan().tolist() == [True, False]),
    }
    print(json.dumps({"errors": errors, "special": special}))


if __name__ == "__main__":
    main()
