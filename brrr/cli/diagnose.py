"""`brrr diagnose`: what limits a saved trace of torch's profiler, or a script that is run now.

python -m brrr diagnose trace.json.gz                 # a trace: nothing runs
python -m brrr diagnose trace.json --device h200      # with another device's figures
python -m brrr diagnose train.py --steps 10           # a script with its arguments, under the profiler
python -m brrr diagnose --html page.html trace.json   # or --json: to keep
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.files import write_atomically
from brrr.diagnosis.diagnosing import diagnose_trace


def main(argv: Sequence[str]) -> int:
    """`brrr diagnose`: 0 when it went well, 1 where the script failed, 2 for an error."""
    script = next((place for place, each in enumerate(argv) if each.endswith(".py")), len(argv))
    options, arguments = _parser().parse_args(argv[: script + 1]), argv[script + 1 :]
    html = options.html.resolve() if options.html is not None else None
    failed = ""
    try:
        if html is not None and not html.parent.is_dir():
            raise ArgumentError("brrr diagnose", "--html", options.html, "a file in a folder that exists")
        with tempfile.TemporaryDirectory() as folder:
            path = options.path
            if path.suffix == ".py":
                path = Path(folder) / "trace.json"
                failed = run_script(options.path, arguments, path)
            found = diagnose_trace(path, options.device)
        print(found.to_json() if options.json else found)
        if html is not None:
            write_atomically(html, found.to_html())
            print(f"Written to {html}", file=sys.stderr)
    except (BrrrError, OSError) as error:
        print(f"brrr diagnose: {error}", file=sys.stderr)
        return 2
    if failed:
        print(f"brrr diagnose: the script ended by {failed}; what it did until then is told above", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    description = (__doc__ or "").partition("\n")[0]
    epilog = "What stands behind a script are its own arguments."
    parser = argparse.ArgumentParser(prog="brrr diagnose", description=description, epilog=epilog)
    parser.add_argument("--device", help="whose figures to compare with, such as h200 (default: the trace's device)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs nothing else, too")
    parser.add_argument("path", type=Path, help="a trace (.json or .json.gz), or a script (.py)")
    return parser


def run_script(path: Path, arguments: Sequence[str], trace: Path) -> str:
    """Run a script as `python path arguments` would, under torch's profiler, and save the trace.

    Returns how it failed, "" where it did not: what it did until then is in the trace.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    from brrr.tracing.recording import without_chatter

    on_gpu, failed = torch.cuda.is_available(), ""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    session = profile(activities=activities, record_shapes=True)
    kept, place, folder = sys.argv, sys.path[0], Path.cwd()
    sys.argv, sys.path[0] = [str(path), *arguments], str(path.resolve().parent)
    with without_chatter():
        session.start()
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        failed = "" if ended.code in (None, 0) else f"SystemExit: {ended.code}"
    except Exception as error:
        failed = "".join(traceback.format_exception_only(error)).strip()
    finally:
        sys.argv, sys.path[0] = kept, place
        os.chdir(folder)
        if on_gpu:
            torch.cuda.synchronize()
        with without_chatter():
            session.stop()
    session.export_chrome_trace(str(trace))
    return failed
