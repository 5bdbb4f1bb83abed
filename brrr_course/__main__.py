"""`python -m brrr_course COMMAND`: as `brrr COMMAND`, also where nothing is installed and no entry point is found."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:  # as in brrr/__main__.py
    del sys.path[0]
    sys.path += {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))} - {*sys.path}

from brrr.__main__ import main
from brrr_course.cli import COMMANDS

if __name__ == "__main__":
    sys.exit(main(added=COMMANDS))
