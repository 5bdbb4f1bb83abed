"""What the claims on the nested sine ask beside the notation: figures of a timeline."""

from brrr_course.experiments.judging import traced

__all__ = ["traced"]
