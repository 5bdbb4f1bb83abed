"""What tests of Strassen's products share: errors against float64, and operands on a GPU."""

import torch


def error(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative, Frobenius."""
    expected = a.double() @ b.double()
    return float((found.double() - expected).norm()) / (float(expected.norm()) or 1.0)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers on the GPU, rounded to a type."""
    return torch.randn(shape, device="cuda").to(dtype)
