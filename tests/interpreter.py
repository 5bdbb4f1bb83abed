"""Triton without a GPU: cases in its interpreter, in a process of its own (it is chosen at import); kernels as PTX."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load_before_a_cell_does() -> None:
    """Triton is loaded as it is, before a lesson's cell asks for its interpreter.

    Triton's own functions stay the interpreter's in a process that first loads them so, and it compiles no kernel then.
    """
    with suppress(ImportError):
        import triton.language  # noqa: F401


INTERPRETS = """
import json, sys
import torch
from tests.triton_cases import cases
torch.manual_seed(int(sys.argv[1]))
json.dump(cases(), sys.stdout)
"""


def interpreted_cases() -> dict[str, Any]:
    """What `cases` of triton_cases.py gave on fresh random input; the seed is told where the process fails."""
    seed, root = str(secrets.randbelow(10**6)), str(HERE.parent)
    ran = subprocess.run(
        [sys.executable, "-c", INTERPRETS, seed], capture_output=True, text=True, check=False, timeout=300,
        cwd=root, env={**os.environ, "PYTHONPATH": root, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, f"seed {seed}\n{ran.stderr}"
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def ptx(
    kernel: Any, constants: Mapping[str, Any], types: Mapping[str, str], architecture: int, *,
    aligned: bool | tuple[str, ...] = False, **options: int,
) -> str:  # fmt: skip
    """A kernel compiled for a GPU that need not be here; `aligned`: 16 divides all addresses and sizes, or these."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {arg: "constexpr" if arg in constants else types[arg] for arg in kernel.arg_names}
    places = {arg: (place,) for place, arg in enumerate(kernel.arg_names)}
    asked = kernel.arg_names if aligned is True else aligned or ()
    whole = [arg for arg, kind in kinds.items() if arg in asked and kind[0] in "*i"]
    multiples = {places[arg]: [["tt.divisibility", 16]] for arg in whole}
    source = ASTSource(kernel, kinds, {places[arg]: value for arg, value in constants.items()}, multiples)
    return str(triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options).asm["ptx"])
