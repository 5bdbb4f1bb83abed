"""`brrr site`: the course as static pages, for any web server or none.

brrr site                                        # into the folder public
brrr site DIR --slides                           # and each lesson as slides, for the projector
brrr site DIR --recordings RECORDINGS --device NAME   # with a recording of your own
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from brrr.core.errors import BrrrError
from brrr_course.site.build import build


def main(argv: Sequence[str]) -> int:
    """`brrr site [DIR] [--slides] [--recordings DIR] [--device NAME]`: 0 when the pages are written, 2 for an error."""
    parser = argparse.ArgumentParser(prog="brrr site", description="Build the course as static pages.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("public"), metavar="DIR", help="(default: public)")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="a folder of them (default: the course's own)")
    parser.add_argument("--device", default="h200", metavar="NAME", help="whose recording (default: %(default)s)")
    parser.add_argument("--slides", action="store_true", help="write each lesson as slides too: NAME.slides.html")
    options = parser.parse_args(argv)
    print("Running the lessons for their pages: some minutes.", file=sys.stderr)
    try:
        pages = build(
            options.folder,
            device=options.device,
            recordings=options.recordings,
            slides=options.slides,
            say=partial(print, file=sys.stderr),
        )
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    size = sum(page.stat().st_size for page in pages)
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB. Open {pages[-1]} in a browser.")
    return 0
