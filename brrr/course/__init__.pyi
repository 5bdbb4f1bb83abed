"""What lessons import of the course: `__init__.py` loads each from here, when it is first used."""

from ..drawing.roofline import ridge_by_generation as ridge_by_generation
from .experiments.cos_cos.work import cos_cos as cos_cos
from .lessons.checking import Mark as Mark
from .lessons.checking import check as check
from .lessons.codegen import against_copy as against_copy
from .lessons.codegen import generated as generated
from .lessons.codegen import megakernel_plan as megakernel_plan
from .lessons.comparing import compare_growth as compare_growth
from .lessons.comparing import compare_memory as compare_memory
from .lessons.comparison import compare as compare
from .lessons.comparison import first_available as first_available
from .lessons.comparison import reachable as reachable
from .lessons.drawings import drawing as drawing
from .lessons.exercises.lesson_07 import model_lines as model_lines
from .lessons.guessing import Guess as Guess
from .lessons.guessing import forget as forget
from .lessons.guessing import guess as guess
from .lessons.roofline_points import roofline_of as roofline_of
from .lessons.strassen_comparison import compare_errors as compare_errors
from .lessons.strassen_comparison import compare_fused as compare_fused
from .lessons.strassen_comparison import compare_published as compare_published
from .lessons.triton_here import tl as tl
from .lessons.triton_here import triton as triton
from .lessons.waiting import Comparison as Comparison
from .view.speedup_tables import mlp_table as mlp_table
from .view.speedup_tables import strassen_table as strassen_table
