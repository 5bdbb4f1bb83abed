"""`brrr site`: the course as static pages, for any web server or none.

brrr site                                        # into the folder public
brrr site 01 05                                  # two lessons alone, beside the pages that lie there
brrr site DIR --slides                           # and each lesson as slides, for the projector
brrr site DIR --recordings RECORDINGS --device NAME   # with a recording of your own
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from brrr.core.errors import BrrrError


def main(argv: Sequence[str]) -> int:
    """`brrr site [DIR] [LESSON ...] [--slides] [--recordings DIR] [--device NAME]`: 0 when all is written, 2 if not."""
    parser = argparse.ArgumentParser(prog="brrr site", description="Build the course as static pages.")
    parser.add_argument("words", nargs="*", metavar="DIR | LESSON", help="a folder (public), lessons as 01 02b (all)")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="a folder of them (default: the course's own)")
    parser.add_argument("--device", default="h200", metavar="NAME", help="whose recording (default: %(default)s)")
    parser.add_argument("--slides", action="store_true", help="write each lesson as slides too: NAME.slides.html")
    options = parser.parse_args(argv)
    lessons = [each for each in options.words if re.fullmatch(r"\d\d[a-z]?", each)]
    folder, *more = [each for each in options.words if each not in lessons] or ["public"]
    if more:
        parser.error(f"one folder, not {folder} and {more[0]} too")
    print("Running the lessons for their pages: some minutes.", file=sys.stderr)
    from brrr_course.site.build import build  # not for --help: it loads what draws

    say = partial(print, file=sys.stderr, flush=True)
    try:
        pages = build(
            Path(folder), lessons, device=options.device, recordings=options.recordings, slides=options.slides, say=say
        )
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    size = sum(page.stat().st_size for page in pages)
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB. Open {pages[-1]} in a browser.")
    return 0
