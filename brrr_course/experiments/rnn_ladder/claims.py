"""What the claims on the ways to run a recurrent network call beside the notation's own functions."""

from brrr.core.errors import NotRecordedError
from brrr_course.experiments.gemm.claims import blocks
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence


def grids(evidence: Evidence, product: str) -> Table:
    """How many blocks a product's first kernel was launched with, by the point, as the profiler told them.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn_ladder"), Recorded("h200"))
    >>> min(grids(evidence, "gate-product").listed())
    16
    """
    known = evidence.source.known(evidence.experiment, product).items()
    found = {key: blocks(m.launched[0]) for key, m in known if m.launched}
    if not found:
        raise NotRecordedError(f"no kernel of {product} was named")
    return Table(tuple(axis.name for axis in evidence.experiment.axes), found)
