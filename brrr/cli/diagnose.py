"""`brrr diagnose`: what limits a saved trace of torch's profiler, or a script that is run now.

python -m brrr diagnose trace.json.gz                 # a trace: nothing runs
python -m brrr diagnose trace.json --device h200      # with another device's figures
python -m brrr diagnose train.py --steps 10           # a script with its arguments, under the profiler
python -m brrr diagnose trace.json --html page.html   # or --json: to keep
"""

from __future__ import annotations

import argparse
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from brrr.core.errors import BrrrError
from brrr.core.files import write_atomically
from brrr.diagnosis.report import Diagnosis


def main(argv: Sequence[str]) -> int:
    """`brrr diagnose`: 0 when it went well, 2 for an error."""
    options = _parser().parse_args(argv)
    try:
        found = _diagnosis(options.path, options.device, options.arguments)
        if options.html is not None:
            write_atomically(options.html, found.to_html())
            print(f"Written to {options.html}", file=sys.stderr)
    except (BrrrError, OSError) as error:
        print(f"brrr diagnose: {error}", file=sys.stderr)
        return 2
    print(found.to_json() if options.json else found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr diagnose", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path, help="a trace (.json or .json.gz), or a script (.py)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    parser.add_argument("--device", help="whose figures to compare with, such as h200 (default: the trace's device)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs nothing else, too")
    return parser


def _diagnosis(path: Path, device: str | None, arguments: Sequence[str]) -> Diagnosis:
    from brrr.diagnosis.diagnosing import diagnose_trace

    if path.suffix != ".py":
        return diagnose_trace(path, device)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        run_script(path, arguments, trace)
        return diagnose_trace(trace, device)


def run_script(path: Path, arguments: Sequence[str], trace: Path) -> None:
    """Run a script as `python path arguments` would, under torch's profiler, and save the trace.

    What the script raises is raised; SystemExit of a script that ends by it is not.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    from brrr.tracing.recording import without_chatter

    on_gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    session = profile(activities=activities, record_shapes=True)
    kept, place = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(path), *arguments], str(path.resolve().parent)
    with without_chatter():
        session.start()
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.path[0] = kept, place
        if on_gpu:
            torch.cuda.synchronize()
        with without_chatter():
            session.stop()
    session.export_chrome_trace(str(trace))
