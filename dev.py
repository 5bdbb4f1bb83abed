#!/usr/bin/env python3
"""Set up this repository and run what it offers; the Makefile only calls this file.

    python dev.py lab         open the lessons in JupyterLab         (make lab)
    python dev.py test        every check that needs no GPU          (make test)
    python dev.py test-gpu    the checks that need an NVIDIA GPU     (make test-gpu)
    python dev.py class ...   brrr class, for a teacher's machine    (make class ARGS=serve)
    python dev.py site [DIR]  the course as static pages             (make site)
    python dev.py record      record the experiments on this GPU     (make record)
    python dev.py lint        ruff and mypy only                     (make lint)
    python dev.py usb [DIR]   collect the packages for WHEELHOUSE    (make usb)
    python dev.py clean       remove .venv and caches, never work/   (make clean)

What follows the command is passed on: `python dev.py lab --fresh 01`, `python dev.py test tests/core/test_units.py`.

    --here           use the Python that runs this file as it is, without a .venv (conda, a prepared class server)
    WHEELHOUSE=DIR   in the environment: install from the packages in DIR, without a network

The first call makes `.venv` and installs the versions of `constraints.txt` into it, each file checked against its hash
in `hashes.txt`; later calls only compare a stamp. Without a GPU, `lab` opens the lessons before torch is there.
This file needs the standard library alone, and no syntax newer than Python 3.6: an old Python must still get as far as
saying which one to install.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.abspath(__file__))
COURSE = os.path.join(ROOT, "brrr_course")  # the second distribution, which needs the first
VENV = os.path.join(ROOT, ".venv")
WINDOWS = os.name == "nt"

OLDEST, NEWEST = (3, 11), (3, 14)  # the Pythons that constraints.txt is made for
OLDEST_MACOS = 14  # torch 2.13 has no wheel for an older one
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NEEDED_GB = {"cpu": 3.0, "large torch": 6.0, "gpu": 9.0}
MOST_WORKERS = 8  # of the tests at a time: each holds torch, and its notebooks a gigabyte more

# The extra `cuda`, one requirement at a time, and what a lesson shows instead if it cannot be installed.
CUDA_ITEMS = [
    ("cuda-bindings>=12.9", "the lines in CUDA C++ are replayed from the recording"),
    ("nvidia-ml-py>=12.560", "clocks and power limits are not shown"),
    ("nvmath-python>=0.7", "the lines that call cuBLAS directly are replayed from the recording"),
    (
        "pycuda>=2024.1",
        "the lines in CUDA C++ are replayed from the recording (PyCUDA is built with g++ and Python's headers)",
    ),
    ("triton>=3.6; sys_platform == 'linux'", "the Triton lines are replayed from the recording"),
]

# What PyCUDA's build includes beyond the headers that torch's packages bring.
HEADERS = ["nvidia-cuda-crt", "nvidia-cuda-profiler-api"]


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


# ----------------------------------------------------------------------------------------------------------------------
# Which Python?

# Runs in any Python, even 2.7, and prints what the choice needs.
PROBE = """
import json, platform, sys
try:
    import ensurepip, venv
    lacks = ""
except ImportError as error:
    lacks = str(error).split("'")[1] if "'" in str(error) else "venv"
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "machine": platform.machine(),
    "bits": 64 if sys.maxsize > 2**32 else 32,
    "lacks": lacks,
    "path": getattr(sys, "_base_executable", None) or sys.executable,
}))
"""


def probe(command):
    """What the Python behind `command` (a list) is, or None if it does not run."""
    try:
        done = subprocess.run([*command, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=15)
        return json.loads(done.stdout.decode()) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def candidates():
    """Commands that may be a fitting Python: the running one first, then those on the PATH."""
    yield [sys.executable]
    names = ["python3.13", "python3.12", "python3.11", "python3.14", "python3", "python"]
    for path in map(shutil.which, names):
        if path:
            yield [path]
    if WINDOWS and shutil.which("py"):
        for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
            yield ["py", "-3.{}".format(minor)]


def find_python():
    """The probe of the Python to build `.venv` with; a SetupError says what to install if there is none."""
    found, newer = [], None
    for command in candidates():
        seen = probe(command)
        if not seen:
            continue
        found.append(seen)
        if not seen["lacks"] and tuple(seen["version"][:2]) >= OLDEST:
            if tuple(seen["version"][:2]) <= NEWEST:
                return seen
            newer = newer or seen
    if newer:
        say(
            "Python {} is newer than the versions this course was tried with (3.11 to 3.14); trying it all the same.",
            dotted(newer["version"]),
        )
        return newer
    raise SetupError(no_python(found))


def no_python(found):
    """The message for a machine whose Pythons (their probes) do not do."""
    lacking = [seen for seen in found if tuple(seen["version"][:2]) >= OLDEST]
    if lacking:
        version = dotted(lacking[0]["version"][:2])
        return "Python {} is here, but its module '{}' is not. {}".format(
            dotted(lacking[0]["version"]), lacking[0]["lacks"], install_hint(version)
        )
    seen = ", ".join(sorted({dotted(one["version"]) for one in found})) or "none"
    return "This course needs Python 3.11 or newer; found: {}. {}".format(seen, install_hint(None))


def install_hint(version):
    """How this system gets a Python, or (given a version that is here) its missing modules."""
    if WINDOWS:
        return "Install it with: winget install Python.Python.3.13"
    if sys.platform == "darwin":
        return "Install it with: brew install python@3.13   (or from https://www.python.org/downloads/)"
    family = linux_family()
    if "debian" in family or "ubuntu" in family:
        if version:
            return "Install it with: sudo apt install python{}-venv".format(version)
        return "Install it with: sudo apt install python3 python3-venv   (3.11 or newer)"
    if "fedora" in family or "rhel" in family:
        return "Install it with: sudo dnf install python3.12 python3-pip"
    if "suse" in family:
        return "Install it with: sudo zypper install python312 python312-pip"
    if "arch" in family:
        return "Install it with: sudo pacman -S python"
    return "Install it with your system's package manager, or from https://www.python.org/downloads/"


def linux_family(path="/etc/os-release"):
    """The ID and ID_LIKE of this Linux, as one lower-case string."""
    try:
        with open(path) as file:
            lines = [line.partition("=") for line in file]
    except OSError:
        return ""
    return " ".join(value.strip().strip('"') for name, _, value in lines if name in ("ID", "ID_LIKE")).lower()


def check_machine(python):
    """Raise a SetupError where torch has no package for this machine; `python` is a probe."""
    if sys.platform == "darwin":
        if python["machine"] == "x86_64":
            raise SetupError(
                "This is a Mac with an Intel processor, or a Python made for one. torch has had no packages for it "
                "since 2.2, and this course needs 2.13. On an Intel Mac, open the course on Binder or Colab "
                "(see README.md); on Apple silicon, install the arm64 Python from https://www.python.org/downloads/"
            )
        major = int((platform.mac_ver()[0] or "99").split(".")[0])
        if major < OLDEST_MACOS:
            raise SetupError(
                "This is macOS {}; torch needs macOS {} or newer. Update macOS, or open the course on Binder "
                "or Colab (see README.md).".format(platform.mac_ver()[0], OLDEST_MACOS)
            )
    if python["bits"] == 32:
        raise SetupError("This Python is a 32-bit one, and torch has 64-bit packages only. Install a 64-bit Python.")


def dotted(version):
    """(3, 11, 2) as 3.11.2."""
    return ".".join(map(str, version))


# ----------------------------------------------------------------------------------------------------------------------
# Which packages?


def gpu_present():
    """Whether an NVIDIA driver is here (cheap: this is asked at every call)."""
    if WINDOWS:
        system = os.environ.get("SYSTEMROOT", r"C:\Windows")
        return os.path.exists(os.path.join(system, "System32", "nvcuda.dll"))
    return os.path.exists("/proc/driver/nvidia/version") or bool(shutil.which("nvidia-smi"))


def wants_cuda():
    """Whether the CUDA build of torch and the extra `cuda` belong here: an NVIDIA GPU under Linux."""
    return sys.platform.startswith("linux") and gpu_present()


def reachable(url, seconds=3.0):
    """Whether `url` answers in time; a thread, because a name look-up heeds no time-out."""
    answers = []

    def ask():
        try:
            request = urllib.request.Request(url, method="HEAD")
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                answers.append(answer.status < 400)
        except (OSError, ValueError):
            answers.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(answers and answers[0])


def wheelhouse():
    """The folder that WHEELHOUSE names, or None if it is not set."""
    folder = os.environ.get("WHEELHOUSE")
    if not folder:
        return None
    folder = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(folder) or not any(name.endswith(".whl") for name in os.listdir(folder)):
        raise SetupError(
            "WHEELHOUSE is {}, which holds no packages. Make them, on a machine with a network and the same "
            "system and Python, with: make usb".format(folder)
        )
    return folder


def index_options():
    """pip's options that say where the packages come from."""
    folder = wheelhouse()
    if folder:
        return ["--no-index", "--find-links", folder]
    return []


def torch_options():
    """pip's options for torch alone, whose own index has small CPU builds for Linux; None where nothing is special.

    No other package is looked for there, and torch nowhere else.
    """
    if wheelhouse() or wants_cuda() or not sys.platform.startswith("linux"):
        return None
    if reachable(CPU_INDEX + "/torch/"):
        return ["--no-deps", "--index-url", CPU_INDEX]
    say("torch's own index of CPU builds does not answer; taking torch from pip's usual index.")
    return None


# ----------------------------------------------------------------------------------------------------------------------
# The environment


def venv_python(venv=None):
    """The Python inside the environment."""
    return os.path.join(venv or VENV, *(("Scripts", "python.exe") if WINDOWS else ("bin", "python")))


def stamp_path():
    """Where the finished set-up is noted."""
    return os.path.join(VENV, "brrr-setup.json")


def setup_key():
    """A digest of all that decides what is installed: one change, and the next call installs again."""
    digest = hashlib.sha256()
    for path in (
        os.path.join(ROOT, "pyproject.toml"),
        os.path.join(COURSE, "pyproject.toml"),
        os.path.join(ROOT, "constraints.txt"),
        os.path.join(ROOT, "hashes.txt"),
        os.path.join(VENV, "pyvenv.cfg"),
    ):
        with open(path, "rb") as file:
            digest.update(file.read() + b"\0")
    digest.update("{}|{}".format(ROOT, [find_nvcc()] if wants_cuda() else "cpu").encode())
    return digest.hexdigest()


def installed_extras():
    """What the stamp vouches for (`first` is all but torch, `base` all), or nothing if it is missing or stale."""
    try:
        with open(stamp_path()) as file:
            stamp = json.load(file)
        fresh = stamp["key"] == setup_key() and os.path.exists(venv_python())
        return {"first", *stamp["extras"]} if fresh else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def ensure(extra):
    """The Python of a `.venv` that holds `extra` (`first`, `base`, `class`, `dev`), made or completed if need be."""
    if extra in installed_extras():
        return venv_python()
    started = time.time()
    with alone():
        if extra in installed_extras():  # by the one that was waited for
            return venv_python()
        make_venv()
        there = installed_extras()
        extras = [] if extra == "first" else sorted(there - {"first"} | {"base", extra})
        stamp(setup_key() if there else "", [])  # interrupted from here on, the next call installs the rest again
        install(extras, there)
        stamp(setup_key(), extras)
    say("Set up in {:.0f} s.", time.time() - started)
    return venv_python()


def stamp(key, extras):
    """Note in `.venv` what it holds; who removes one looks for this file."""
    with open(stamp_path(), "w") as file:
        json.dump({"key": key, "extras": extras}, file)


def remove_own():
    """Remove `.venv` if there is one; a SetupError for one that nothing here made."""
    if os.path.exists(VENV) and not os.path.islink(VENV) and not os.path.exists(stamp_path()):
        raise SetupError("{} is not an environment that dev.py made. Move it away, or remove it yourself.".format(VENV))
    remove(VENV)


@contextlib.contextmanager
def alone():
    """Within it no other set-up of this folder runs; the system lets go of the lock, however the process ends."""
    try:
        file = open(VENV + ".lock", "a")  # noqa: SIM115 (closed below)
    except OSError:  # nobody sets up what cannot be written to; `check_space` says so
        yield
        return
    with file:
        said = False
        while not locked(file):
            if not said:
                say("Another set-up of this folder runs; waiting for it.")
                said = True
            time.sleep(0.5)
        yield


def locked(file):
    """Whether this process holds the lock on an open file now."""
    try:
        if WINDOWS:
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def make_venv():
    """Create `.venv`, unless one with a fitting Python and pip is there."""
    seen = probe([venv_python()]) if os.path.exists(venv_python()) else None
    if seen and tuple(seen["version"][:2]) >= OLDEST and has_pip():
        check_machine(seen)
        return
    python = find_python()
    check_machine(python)
    check_space()
    say("Making .venv with Python {} ({}).", dotted(python["version"]), python["path"])
    remove_own()
    os.makedirs(VENV)
    stamp("", [])
    if subprocess.call([python["path"], "-m", "venv", VENV], env=clean_environment()) != 0:
        remove_own()
        raise SetupError(
            "Python could not make an environment in {}. {}".format(VENV, install_hint(dotted(python["version"][:2])))
        )


def has_pip():
    """Whether pip runs in `.venv` (an interrupted set-up may have left none)."""
    return (
        subprocess.call(
            [venv_python(), "-m", "pip", "--version"],
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        == 0
    )


def check_space():
    """Raise a SetupError if the disk is too full for the packages."""
    if not os.access(ROOT, os.W_OK):
        raise SetupError(
            "{} cannot be written to, and .venv belongs there. Clone the course into a folder of your own, or use the "
            "Python that you have as it is: python dev.py lab --here --work DIR".format(ROOT)
        )
    large = sys.platform.startswith("linux") and not wheelhouse() and not reachable(CPU_INDEX + "/torch/")
    needed = NEEDED_GB["gpu" if wants_cuda() else "large torch" if large else "cpu"]
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < needed:
        raise SetupError("The packages need about {:.1f} GB in {}, and {:.1f} GB are free.".format(needed, ROOT, free))


def clean_environment():
    """The environment for pip and venv, without the settings that would lead them out of `.venv`."""
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore", PIP_USER="0")
    for name in ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "__PYVENV_LAUNCHER__"):
        environment.pop(name, None)
    nvcc = find_nvcc()
    if nvcc:  # PyCUDA's build looks for it on the PATH
        environment["PATH"] = environment.get("PATH", "") + os.pathsep + os.path.dirname(nvcc)
    return environment


def find_nvcc():
    """The CUDA compiler, on the PATH or in its usual places, or None."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [os.path.join(home, "bin") for home in homes if home]
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(places))


def pip(*arguments):
    """Run pip in `.venv`, pinned; True if it succeeded."""
    pinned = ["--quiet", "--constraint", os.path.join(ROOT, "constraints.txt")]
    command = [venv_python(), "-m", "pip", arguments[0], *pinned]
    return subprocess.call(command + list(arguments[1:]), cwd=ROOT, env=clean_environment()) == 0


def fetch(wanted, where, into=None):
    """Install what pip finds for these requirements (or collect it in a folder), each file held against its hash.

    pip checks hashes only where every version and every dependency is named: so it says first what it would take, and
    then gets exactly that. True if it succeeded.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, locked = os.path.join(folder, "report.json"), os.path.join(folder, "locked.txt")
        say("Asking which packages fit: {}.", ", ".join(name.replace(ROOT, ".") for name in wanted if name[:2] != "--"))
        fresh = ["--ignore-installed"] if into else []
        if not pip("install", "--dry-run", "--report", report, *fresh, *wanted, *where):
            return False
        with open(report, encoding="utf-8") as file:
            found = [one for one in json.load(file)["install"] if "dir_info" not in one["download_info"]]
        try:
            lines = [locked_line(one["metadata"]["name"], one["metadata"]["version"]) for one in found]
        except KeyError as unknown:
            say("{} is not in hashes.txt, and so is not installed.", unknown.args[0])
            return False
        with open(locked, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        verb = ["wheel", "--wheel-dir", into] if into else ["install"]
        with shown_progress(found, folder):
            return not lines or pip(*verb, "--no-deps", "--require-hashes", "--requirement", locked, *where)


# Bytes that a byte of a wheel takes when it is installed, and that are installed a second until it is seen.
UNPACKED, INSTALLED_PER_S = 4.2, 15e6


@contextlib.contextmanager
def shown_progress(found, folder):
    """Within it a bar tells what pip has downloaded and installed of these packages, and how long the rest takes."""
    with ThreadPoolExecutor(16) as pool:
        total = sum(pool.map(size_of, found))
    if total < 5e6:
        yield
        return
    before, began, there, done = os.environ.get("TMPDIR"), time.time(), held(site_packages()), threading.Event()

    def show():
        loaded, installing = 0, began
        while not done.wait(2.0 if sys.stdout.isatty() else 10.0):  # each look takes a moment of a processor
            now, installed = time.time(), held(site_packages()) - there
            loaded = max(loaded, min(total, held(folder)), total * (installed > 1e6))
            if loaded < total:
                installing = now
            rate = (installed + 5 * INSTALLED_PER_S) / (now - installing + 5)  # what is usual weighs five seconds
            left_s = (total - loaded) / max(loaded / (now - began), 1e3) + max(0.0, UNPACKED * total - installed) / rate
            share = min(1.0, installed / UNPACKED / total)
            part = ("downloaded", loaded) if loaded < total else ("installed", share * total)
            bar = "#" * int(20 * (now - began) / (now - began + left_s))
            line = "[{:<20}] {:.0f} of {:.0f} MB {}, about {:.0f} s left".format(
                bar, part[1] / 1e6, total / 1e6, part[0], left_s
            )
            if sys.stdout.isatty():
                sys.stdout.write("\r{:<78}\r".format(line))
                sys.stdout.flush()
            else:
                say("{}", line)

    os.environ["TMPDIR"] = folder
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if sys.stdout.isatty():  # what is printed next stands alone on its line
            sys.stdout.write("\r{:<78}\r".format(""))
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)


def size_of(one):
    """The bytes of the file that pip would take for a package of its report; none where nobody says."""
    url = one["download_info"].get("url", "")
    with contextlib.suppress(OSError, ValueError):
        if url.startswith("file:"):
            return os.path.getsize(urllib.request.url2pathname(url.partition("://")[2]))
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=5) as answer:
            return int(answer.headers.get("Content-Length", 0))
    return 0


def held(folder):
    """The bytes of all files in a folder, which pip may be moving meanwhile."""
    paths = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    size = 0
    for path in paths:
        with contextlib.suppress(OSError):
            size += os.path.getsize(path)
    return size


def locked_line(name, version):
    """A package in pip's notation, with the hashes of all its files; KeyError if hashes.txt has none."""
    key = "{}=={}".format(re.sub("[-_.]+", "-", name).lower(), version.partition("+")[0])
    return "{}=={} {}".format(name, version, " ".join(known_hashes()[key]))


def known_hashes():
    """What hashes.txt knows of each `name==version`: pip's options for its files."""
    found = {}
    with open(os.path.join(ROOT, "hashes.txt"), encoding="utf-8") as file:
        for line in file.read().replace("\\\n", " ").splitlines():
            if not line.startswith("#"):
                key, *hashes = line.split()
                found.setdefault(key, []).extend(hashes)
    return found


def install(extras, there=()):
    """Install both packages in place, with what they need, but torch only where `extras` names any.

    On a machine with an NVIDIA GPU also the extra `cuda`. Nothing that is `there` is touched: it may be in use.
    """
    names = [extra for extra in extras if extra != "base"]
    check_wheelhouse()
    say("Installing the packages: some minutes the first time.")
    where, torch = index_options(), torch_options() if extras else None
    if wants_cuda() and cpu_torch():
        subprocess.call([venv_python(), "-m", "pip", "uninstall", "--quiet", "--yes", "torch"], env=clean_environment())
    course = "{}[{}]".format(COURSE, ",".join(names)) if names else COURSE
    both = ["--editable", ROOT, "--editable", course]
    ok = (
        (there or fetch(["hatchling", *needed_first()], where))
        and (torch is None or fetch(["torch"], torch))
        and (not extras or fetch(["--no-build-isolation", *both], where))
        and (there or pip("install", "--no-deps", "--no-build-isolation", *both))
    )
    if not ok:
        raise SetupError(
            "pip could not install the packages; the reason stands above. Call this again to go on from here. "
            "Without a network, set WHEELHOUSE to a folder that `make usb` made."
        )
    point_relatively()
    if wants_cuda():
        install_cuda(where)


# Prints what these projects need, the pictures among it.
LISTED = """
import sys, tomllib
for path in sys.argv[1:]:
    with open(path + "/pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    print(*project["dependencies"], *project["optional-dependencies"].get("plot", []), sep="\\n")
"""


def needed_first():
    """What both packages need beyond each other, but torch, which is two thirds of all bytes."""
    listed = subprocess.check_output([venv_python(), "-c", LISTED, ROOT, COURSE]).decode().split("\n")
    return [each.strip() for each in listed if each.strip() and not each.startswith(("brrr-", "torch"))]


def check_wheelhouse():
    """Raise a SetupError if the packages of WHEELHOUSE are for another Python than that of `.venv`."""
    seen = probe([venv_python()]) if wheelhouse() else None
    torches = [name for name in os.listdir(wheelhouse()) if name.startswith("torch-")] if seen else []
    if torches and not any("-cp{}{}-".format(*seen["version"]) in name for name in torches):
        raise SetupError(
            "WHEELHOUSE is {}, whose packages are for another Python ({}); .venv has {}. Fill it with: make usb, on a "
            "machine with that Python.".format(wheelhouse(), torches[0], dotted(seen["version"]))
        )


def site_packages():
    """Where the environment keeps its packages; without one (Binder), a folder that is not there."""
    found = (folder for folder, _, _ in os.walk(VENV) if os.path.basename(folder) == "site-packages")
    return next(found, os.path.join(VENV, "lib"))


def kept_there():
    """What lies among the environment's packages."""
    return os.listdir(site_packages()) if os.path.isdir(site_packages()) else []


def point_relatively():
    """Name our folder in `.venv` as seen from there.

    Python 3.11 and 3.12 read a whole path in the locale's encoding: with an umlaut in it, they may not even start.
    """
    site = site_packages()
    for name in kept_there():
        if name.startswith("_brrr_") and name.endswith(".pth"):
            with open(os.path.join(site, name), "w") as file:
                file.write(os.path.relpath(ROOT, site) + "\n")


def cpu_torch():
    """Whether the environment holds a CPU build of torch."""
    return any(name.startswith("torch-") and "+cpu" in name for name in kept_there())


def install_cuda(where):
    """Install the extra `cuda` one by one: what fails costs its own line in a lesson, and nothing else."""
    for requirement, lost in CUDA_ITEMS:
        # Nobody could know the hash of a wheel that `make usb` has built (PyCUDA's).
        if wheelhouse():
            done = pip("install", requirement, *where)
        else:
            with headers_for(requirement, where):
                done = fetch([requirement], where)
        if not done:
            say("Not installed: {}. In the lessons, {}.", requirement.split(">")[0], lost)


@contextlib.contextmanager
def headers_for(requirement, where):
    """Within it PyCUDA is built without nvcc, by the headers and libraries of torch's own packages.

    The lessons compile their kernels by NVRTC, so that nothing else of the toolkit is needed.
    """
    cuda = os.path.join(site_packages(), "nvidia", "cu13")
    if not requirement.startswith("pycuda") or find_nvcc() or not os.path.isdir(cuda) or not fetch(HEADERS, where):
        yield
        return
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as stubs:
        os.symlink(os.path.join(cuda, "lib", "libcurand.so.10"), os.path.join(stubs, "libcurand.so"))
        # What is linked with is a library without content; what is loaded is the driver's.
        empty = ["-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", os.devnull, "-o", os.path.join(stubs, "libcuda.so")]
        try:
            if shutil.which("cc"):  # else PyCUDA's build says what it lacks
                subprocess.call(["cc", *empty])
            os.environ.update(CUDA_ROOT=cuda, CPATH=os.path.join(cuda, "include"), LIBRARY_PATH=stubs)
            os.environ["LDFLAGS"] = "-Wl,--no-as-needed,-rpath,$ORIGIN/../nvidia/cu13/lib"
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def remove(path):
    """Remove a folder, a file or a link (never what a link points to), if it is there."""
    if os.path.islink(path) or os.path.isfile(path):
        os.remove(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


# ----------------------------------------------------------------------------------------------------------------------
# The commands


def lab(python, arguments):
    """Open the lessons; what is not there yet comes meanwhile, and a kernel reads from `coming_path` how far it is."""
    if python == venv_python() and "base" not in installed_extras():
        say("torch comes in the background: most lessons begin without it, and a cell that needs it waits for it.")
        with open(coming_path(), "a") as file:
            file.write("It has just begun.\n")
            file.flush()
            subprocess.Popen([sys.executable, os.path.abspath(__file__), "rest"], stdout=file)
    return become([python, "-m", "brrr", "lab", *arguments])


def coming_path():
    """What `rest` says of itself while it runs, and is empty afterwards (brrr_course/view/coming.py reads it)."""
    return os.path.join(VENV, "brrr-coming.txt")


def rest():
    """Install what `lab` opened without, and say in its terminal how that ended."""
    end = "torch is not installed yet. To go on from here: Ctrl-C, then `make lab` (python dev.py lab) once more."
    if hasattr(os, "nice"):  # a lesson is open meanwhile
        os.nice(10)
    try:
        ensure("base")
        end = "torch is there now: no cell waits for it any more."
    except (SetupError, OSError) as error:
        end = "{}\n{}".format(error, end)
    finally:
        os.truncate(coming_path(), 0)  # Windows removes no file that is open, as this one is
        print("\n" + end, file=sys.stderr)
    return 0


def record(python, arguments):
    """Record experiments."""
    return become([python, "-m", "brrr", "record", *arguments])


def site(python, arguments):
    """Build the course as static pages."""
    return become([python, "-m", "brrr", "site", *arguments])


def classroom(python, arguments):
    """Measure for a class, or one of its other commands."""
    return become([python, "-m", "brrr", "class", *arguments])


def lint(python, arguments):
    """ruff, the layers and mypy."""
    return run_all([*style_steps(python), types_step(python)])


def style_steps(python):
    """The checks of the source text that take a moment."""
    return [
        ("ruff check", [python, "-m", "ruff", "check", "."], None),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "."], None),
        ("layers", [python, "-c", "from importlinter.cli import lint_imports_command as lint; lint()"], None),
    ]


def types_step(python):
    """The check of the types, a minute of work where nothing is cached."""
    return ("mypy --strict", [python, "-m", "mypy", "--strict", "brrr", "brrr_course"], None)


def test(python, arguments):
    """Every check that needs no GPU; with arguments, pytest alone with these."""
    pytest = [python, "-m", "pytest"]
    if arguments:
        return become([*pytest, *arguments])
    parallel = [*pytest, "-n", str(min(os.cpu_count() or 1, MOST_WORKERS)), "--dist", "loadfile"]
    # One thread a worker: the others' cores are in use. Compiled modules are kept: hundreds of processes import them.
    shared = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    steps = [
        *style_steps(python),
        ("examples in docstrings", [*parallel, "--doctest-modules", "brrr", "brrr_course"], shared),
        ("tests", [*parallel, "--no-loadscope-reorder", "tests", "--ignore=tests/gpu"], shared),
    ]
    return run_all(steps, beside=types_step(python))


def test_gpu(python, arguments):
    """The checks that need a GPU: without one they fail, since they were asked for."""
    question = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 3)"
    if subprocess.call([python, "-c", question], cwd=ROOT) != 0:
        raise SetupError(
            "test-gpu needs a CUDA device that torch can use, and there is none. What is missing: "
            "{} -m brrr doctor --require cuda".format(python)
        )
    pytest, live = [python, "-m", "pytest"], {"BRRR_SOURCE": "cuda"}
    if arguments:
        return run_all([("pytest on the GPU", [*pytest, *arguments], live)])
    workers = str(min(os.cpu_count() or 1, MOST_WORKERS))
    steps = [
        ("kernels on the GPU", [*pytest, "-n", workers, "--dist", "worksteal", "-m", "not timing", "tests/gpu"], live),
        ("tests of what takes how long", [*pytest, "-m", "timing", "tests/gpu"], live),
        ("lessons, live", [*pytest, "-n", workers, "tests/notebooks"], live),
    ]
    return run_all(steps)


def usb(arguments):
    """Collect every package for an installation without a network, for this system and this Python."""
    folder = os.path.abspath(arguments[0] if arguments else os.environ.pop("WHEELHOUSE", None) or "wheelhouse")
    os.environ.pop("WHEELHOUSE", None)
    make_venv()
    os.makedirs(folder, exist_ok=True)
    say("Collecting the packages in {}.", folder)
    where, torch = index_options(), torch_options()
    ok = (
        fetch(["hatchling"], where)  # it tells what our own packages need, which are installed from their folders
        and (torch is None or fetch(["torch"], torch, folder))
        and fetch(["--no-build-isolation", "hatchling", ROOT, COURSE + "[dev]"], ["--find-links", folder], folder)
    )
    if not ok:
        raise SetupError("pip could not collect the packages; the reason stands above.")
    for requirement, lost in CUDA_ITEMS if wants_cuda() else []:
        with headers_for(requirement, where):
            done = fetch([requirement], where, folder)
        if not done:
            say("Not collected: {}. In the lessons, {}.", requirement.split(">")[0], lost)
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    say(
        '{} packages, {:.0f} MB. Install from them with: WHEELHOUSE="{}" make lab',
        len(os.listdir(folder)),
        size / 1e6,
        folder,
    )
    return 0


def clean():
    """Remove `.venv` and caches, as far as our tools made them: each leaves its mark in its folder."""
    marks = {".hypothesis": ".gitignore"}
    for name in (".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"):
        if os.path.exists(os.path.join(ROOT, name, marks.get(name, "CACHEDIR.TAG"))):
            remove(os.path.join(ROOT, name))
    tops = [os.path.join(ROOT, top) for top in ("brrr", "brrr_course", "tests", "notebooks", "__pycache__")]
    for folder, _, files in (each for top in tops for each in os.walk(top, topdown=False)):
        if os.path.basename(folder) == "__pycache__":
            for name in files:
                if name.endswith(".pyc"):
                    os.remove(os.path.join(folder, name))
            if not os.listdir(folder):
                os.rmdir(folder)
    remove_own()
    return 0


def run_all(steps, beside=None):
    """Run (name, command, further environment) one after the other, all of them, and say which failed.

    `beside` is one more step, which runs while the others do; what it prints comes at their end.
    """
    failed = []
    with tempfile.TemporaryFile() as printed:
        other = beside and subprocess.Popen(beside[1], cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT)
        for name, command, further in steps:
            say("--- {}", name)
            if subprocess.call(command, cwd=ROOT, env=dict(os.environ, **(further or {}))) != 0:
                failed.append(name)
        if other:
            say("--- {}", beside[0])
            if other.wait() != 0:
                failed.append(beside[0])
            printed.seek(0)
            say("{}", printed.read().decode(errors="replace").strip())
    count = len(steps) + bool(beside)
    say("{}", "FAILED: " + ", ".join(failed) if failed else "All {} checks passed.".format(count))
    return 1 if failed else 0


def become(command):
    """Run `command` in place of this process, so that Ctrl-C reaches it alone."""
    sys.stdout.flush()
    for name in ("BRRR_TOKEN_FILE", "BRRR_RECORDINGS"):  # paths from the caller's folder
        if os.environ.get(name):
            parts = os.environ[name].split(os.pathsep if name == "BRRR_RECORDINGS" else "\0")
            os.environ[name] = os.pathsep.join(os.path.abspath(os.path.expanduser(each)) for each in parts if each)
    os.chdir(ROOT)
    if WINDOWS:  # there, execv returns to the shell at once
        try:
            return subprocess.call(command)
        except KeyboardInterrupt:
            return 130
    os.execv(command[0], command)
    return 127


def say(text, *values):
    """Print at once, so that our lines and those of the programs we start keep their order."""
    print(text.format(*values))
    sys.stdout.flush()


COMMANDS = {
    "lab": (lab, "first"),
    "test": (test, "dev"),
    "test-gpu": (test_gpu, "dev"),
    "record": (record, "base"),
    "site": (site, "base"),
    "class": (classroom, "class"),
    "lint": (lint, "dev"),
}


def main(argv):
    """Run one command; the exit status is its own."""
    words = [word for word in argv if word != "--here"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(__doc__.strip())
        return 0 if words else 2
    name, arguments = words[0], words[1:]
    if name == "usb":
        return usb(arguments)
    if name == "clean":
        return clean()
    if name == "rest":  # what `lab` calls
        return rest()
    if name not in COMMANDS:
        raise SetupError("'{}' is no command here; there are {}, usb and clean.".format(name, ", ".join(COMMANDS)))
    command, extra = COMMANDS[name]
    if extra == "first" and (gpu_present() or sys.platform == "darwin"):  # lessons measure there from the beginning
        extra = "base"
    return command(here() if "--here" in argv else ensure(extra), arguments)


def here():
    """The running Python, used as it is."""
    if sys.version_info[:2] < OLDEST:
        raise SetupError(
            "--here uses the running Python, which is {}; this course needs 3.11 or newer.".format(
                dotted(sys.version_info[:3])
            )
        )
    return sys.executable


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SetupError as error:
        print("\n" + str(error), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
