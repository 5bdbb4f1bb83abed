"""`python -m brrr_course COMMAND`: as `brrr COMMAND`, also where nothing is installed and no entry point is found."""

import sys

from brrr.__main__ import main
from brrr_course.cli import COMMANDS

if __name__ == "__main__":
    sys.exit(main(added=COMMANDS))
