"""A fused network beside the one that it was made of: `against_float64`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brrr_course.lessons.waiting import Comparison

if TYPE_CHECKING:
    import torch


def against_float64(model: torch.nn.Module, fused: torch.nn.Module, x: torch.Tensor) -> Comparison:
    """Compare a model and a fused copy of it with the model in float64: the output and all gradients.

    >>> import torch
    >>> model = torch.nn.Linear(4, 4)
    >>> against_float64(model, model, torch.randn(2, 4)).header
    ('', 'the model', 'fused')

    Parameters
    ----------
    model, fused : torch.nn.Module
        The model, and its copy from `brrr.strassen.fuse`.
    x : torch.Tensor
        An input.

    Returns
    -------
    Comparison
        Relative errors (Frobenius norm) of the output and of each gradient.
    """
    from copy import deepcopy

    exact, plain, made = _results(deepcopy(model).double(), x.double()), _results(model, x), _results(fused, x)
    rows = [(name, *(f"{_away(found[name], wanted):.1e}" for found in (plain, made))) for name, wanted in exact.items()]
    worst = max(float(row[2]) for row in rows)
    text = f"Relative errors against float64, forward and backward; the fused network's largest is {worst:.1e}."
    badge = f"LIVE on this machine's {x.device.type.upper()}"
    return Comparison(text, ("", "the model", "fused"), tuple(rows), badge)


def _results(model: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The output, and the gradients of the sum of its squares."""
    model.zero_grad()
    given = x.clone().requires_grad_()
    output = model(given)
    output.square().sum().backward()
    found = {"output": output.detach(), "gradient of the input": given.grad}
    found |= {f"gradient of {name}": None if each.grad is None else each.grad.clone()
              for name, each in model.named_parameters()}  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def _away(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())
