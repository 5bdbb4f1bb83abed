"""Exercise 13b-scales: scales by rows and columns, with which an fp8 product loses no row and no column."""

from typing import Any

from brrr_course.lessons.marks import Wrong, ask, exercise

ROWS, INNER, COLUMNS = 8, 256, 6
LARGEST = 448.0
SPREAD = 3.0
"""Rows of a, and columns of b, lie up to so many powers of ten above and below 1."""
ALLOWED = 0.04
"""The error of a row or a column after the cast: rounding to three bits of mantissa leaves about 2.6 %."""


@exercise("13b-scales")
def scales(scales: Any) -> str:
    """`scales(a, b)` returns by what the rows of a and the columns of b are divided before the cast to e4m3."""
    import torch

    size_a, size_b = torch.logspace(-SPREAD, SPREAD, ROWS)[:, None], torch.logspace(SPREAD, -SPREAD, COLUMNS)[None]
    a, b = torch.randn(ROWS, INNER) * size_a, torch.randn(INNER, COLUMNS) * size_b
    found = ask(scales, a.clone(), b.clone())
    if not isinstance(found, tuple) or len(found) != 2:
        raise Wrong("`scales` must return two scales.", "return of_a, of_b")
    of_a, of_b = (torch.as_tensor(each, dtype=torch.float32) for each in found)
    if of_a.numel() not in (1, ROWS) or of_b.numel() not in (1, COLUMNS):
        shapes = f"{tuple(of_a.shape)} and {tuple(of_b.shape)}"
        hint = "A scale can be taken out of a sum only if it is the same for the whole sum: a row of a, a column of b."
        raise Wrong(f"the scales have the shapes {shapes}; expected ({ROWS}, 1) and (1, {COLUMNS}).", hint)
    of_a, of_b = of_a.reshape(-1, 1), of_b.reshape(1, -1)
    if float((a / of_a).abs().max()) > LARGEST * 1.001 or float((b / of_b).abs().max()) > LARGEST * 1.001:
        raise Wrong("some numbers are larger than 448, and become NaN.",
                    "Divide the largest number of a row by 448: that is the scale.")  # fmt: skip
    kept = [(each / scale).to(torch.float8_e4m3fn).float() * scale for each, scale in ((a, of_a), (b, of_b))]
    for name, whole, cast, along in (("row", a, kept[0], 1), ("column", b, kept[1], 0)):
        errors = (cast - whole).norm(dim=along) / whole.norm(dim=along)
        if not float(errors.max()) <= ALLOWED:
            worst, lost = int(errors.argmax()), float(errors.max())
            raise Wrong(f"after the cast {name} {worst} is off by {100 * lost:.0f} %: it is too small for e4m3.",
                        f"Give each {name} its own scale.")  # fmt: skip
    found, right = (of_rows / size_a @ (of_columns / size_b) for of_rows, of_columns in (kept, (a, b)))
    off = 100 * float((found - right).norm() / right.norm())
    return f"no row and no column is lost. The product is off by {off:.1f} %: 3 bits of mantissa keep no more."
