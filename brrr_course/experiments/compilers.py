"""What torch.compile needs of a machine."""

import os
import shutil


def has_cpp_compiler() -> bool:
    """Whether torch.compile finds a C++ compiler for the CPU."""
    return any(shutil.which(each) for each in (os.environ.get("CXX", ""), "g++", "clang++", "cl") if each)
