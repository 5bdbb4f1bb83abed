"""The public names of brrr: `__init__.py` loads each from here, when it is first used."""

from .cli.doctor import doctor as doctor
from .core.errors import ArgumentError as ArgumentError
from .core.errors import BrrrError as BrrrError
from .core.errors import CaptureError as CaptureError
from .core.errors import DeviceMemoryError as DeviceMemoryError
from .core.errors import NotRecordedError as NotRecordedError
from .core.errors import RecordingError as RecordingError
from .core.errors import TraceError as TraceError
from .core.errors import UnavailableError as UnavailableError
from .core.errors import WrongResultError as WrongResultError
from .core.measurement import Estimate as Estimate
from .core.measurement import Measurement as Measurement
from .counting.cost import Cost as Cost
from .counting.description import array as array
from .counting.tracing import cost as cost
from .diagnosis.diagnosing import diagnose as diagnose
from .diagnosis.diagnosing import diagnose_trace as diagnose_trace
from .diagnosis.magics import load_ipython_extension as load_ipython_extension
from .diagnosis.report import Diagnosis as Diagnosis
from .diagnosis.sweeping import Sweep as Sweep
from .diagnosis.sweeping import sweep as sweep
from .drawing.roofline import roofline_plot as roofline_plot
from .gpu.datasheet import hardware as hardware
from .kernels.elementwise.kernel import elementwise as elementwise
from .kernels.elementwise.parse import LineError as LineError
from .kernels.padding import padded_matmul as padded_matmul
from .kernels.recurrent.layer import PersistentRNN as PersistentRNN
from .roofline.calibrate import calibrate as calibrate
from .roofline.peak import Peak as Peak
from .roofline.peaks import MissingPeakError as MissingPeakError
from .roofline.peaks import Peaks as Peaks
from .roofline.predicting import predict as predict
from .roofline.prediction import Prediction as Prediction
from .roofline.shapes import suggest_shape as suggest_shape
from .running.graphs import capture as capture
from .running.pipeline import Pipeline as Pipeline
from .timing import measure as measure
from .timing import measure_together as measure_together
from .timing.comparing import CallComparison as CallComparison
from .timing.comparing import compare_calls as compare_calls
from .timing.cpu_queue import CpuQueue as CpuQueue
from .tracing.timeline import Timeline as Timeline
from .tracing.tracer import trace as trace

__version__: str
