"""Plant small mistakes into a copy of brrr/, one at a time, and see which test notices.

    python tests/mutants.py draw 40 --seed 13 [--of PATTERN ...] > mutants.json
    python tests/mutants.py run mutants.json --out results.json [--seconds 120] [--only 3,7] [--tests PATH ...]

tests/mutants.json holds some to run again: twenty drawn by `draw 10 --seed 1122` from the claims, statistics,
recordings and sources each (of the first and third draw those at even places, else at odd ones), and five that the
tests of an earlier day had missed.

A mistake is kept as its function, statement and expression, so it can be planted again when the code has moved. Not
drawn: modules that import a GPU's compiler or driver and functions that name torch.cuda, which no CPU can test.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

SWAPS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in"}
SWAPS |= {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.And: "or", ast.Or: "and"}
TURNED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
UNITS = {1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9, 1e12, 1024, 2**20, 2**30}
GPU_MODULE = re.compile(r"^\s*(import|from) (triton|pycuda|cuda|nvmath|cupti|pynvml)\b", re.MULTILINE)
SKIPPED = ("annotation", "returns", "decorator_list")
Key = tuple[str, str, str]


def places(node: Any, function: str = "", said: str = "", scope: Any = None) -> Iterator[tuple[Key, Any, Any]]:
    """Each expression as ((function, statement, expression), its node, the function's node)."""
    for child in (c for name, value in ast.iter_fields(node) if name not in SKIPPED for c in _nodes(value)):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from places(child, f"{function}.{child.name}".lstrip("."), "", child)
        elif not isinstance(child, ast.Assert | ast.JoinedStr):
            text = ast.unparse(child).partition("\n")[0] if isinstance(child, ast.stmt) else said
            if isinstance(child, ast.expr) and len(text) < 200:
                yield (function, text, ast.unparse(child)), child, scope
            yield from places(child, function, text, scope)


def _nodes(value: Any) -> list[ast.AST]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]


def mistakes(key: Key, node: Any, scope: Any) -> Iterator[tuple[str, str]]:
    """What can be made wrong of an expression: (kind, what stands there then)."""
    said, parts = ast.unparse, {type(each) for each in ast.walk(node)}
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and (op := type(node.ops[0])) in SWAPS:
        for kind, new in {"bound" if op in TURNED else "comparison": SWAPS[op], "turned": TURNED.get(op)}.items():
            if new:
                yield kind, f"{said(node.left)} {new} {said(node.comparators[0])}"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not parts & {ast.JoinedStr, ast.List, ast.Tuple}:
        yield "arithmetic", f"({said(node.left)}) {SWAPS[type(node.op)]} ({said(node.right)})"
    elif isinstance(node, ast.Call) and said(node.func) in ("min", "max"):
        yield "min/max", ("max" if said(node.func) == "min" else "min") + said(node)[3:]
    elif isinstance(node, ast.Call) and said(node.func).endswith(".synchronize"):
        yield "no synchronize", "None"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        if node.value in UNITS:
            yield "unit", f"{node.value!r} * 1000"
        elif not key[0] and re.match(r"_?[A-Z_]+\b.*=", key[1]):
            yield "constant", f"{node.value!r} * 2"
        elif key[0] and node.value in (0, 1, 2):
            yield "off by one", str(int(node.value) + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "no not", said(node.operand)
    elif isinstance(node, ast.BoolOp):
        yield "and/or", f" {SWAPS[type(node.op)]} ".join(f"({said(each)})" for each in node.values)
    elif isinstance(node, ast.Name) and isinstance(scope, ast.FunctionDef):
        given, uses = scope.args, [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == node.id]
        pairs = list(zip(given.args[::-1], given.defaults[::-1], strict=False))
        pairs += [(name, value) for name, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
        if len(uses) == 1 and (default := {name.arg: value for name, value in pairs}.get(node.id)):
            yield "ignored argument", said(default)


def draw(root: Path, count: int, seed: int, patterns: list[str]) -> list[dict[str, str]]:
    """As many mistakes as asked for: each kind in turn, at most one in a function, none at an ambiguous place."""
    kinds: Any = defaultdict(list)
    seen: Counter[Key] = Counter()
    for path in sorted(each for pattern in patterns for each in (root / "brrr").rglob(pattern)):
        text = path.read_text("utf-8")
        on_gpu = {None: bool(GPU_MODULE.search(text))}
        for key, node, scope in [] if on_gpu[None] else places(ast.parse(text)):
            seen[key] += 1
            if scope not in on_gpu:
                on_gpu[scope] = isinstance(scope, ast.FunctionDef) and "torch.cuda" in ast.unparse(scope)
            for kind, after in [] if on_gpu[scope] else mistakes(key, node, scope):
                kinds[kind].append((key, {"file": str(path.relative_to(root)), "kind": kind, "after": after}))
    dice, drawn = random.Random(seed), {}
    for kind in cycle(sorted(kinds)):
        fresh = [(key, made) for key, made in kinds[kind] if seen[key] == 1 and (made["file"], key[0]) not in drawn]
        if len(drawn) == count or not any(kinds.values()):
            break
        kinds[kind] = fresh
        if not fresh:
            continue
        key, made = dice.choice(fresh)
        named = dict(zip(("function", "statement", "before"), key, strict=True))
        drawn[made["file"], key[0]] = {**made, **named}
    return list(drawn.values())


@cache
def index(root: Path) -> dict[str, list[tuple[Key, Path, Any]]]:
    """Where each expression stands in the tree: its key, file and node."""
    found = defaultdict(list)
    for path in sorted([*(root / "brrr").rglob("*.py"), *(root / "tools").rglob("*.py")]):
        for key, node, _ in places(ast.parse(path.read_text("utf-8"))):
            found[key[2]].append((key, path, node))
    return found


def plant(root: Path, mutant: dict[str, str]) -> tuple[Path, str]:
    """The file where the mistake's place is now, and its text with the mistake; LookupError where none is alike."""
    wanted = (mutant["function"], mutant["statement"], mutant["before"])
    here = index(root)[mutant["before"]]
    found = [(1.0, each) for each in here if each[0] == wanted] or [
        (difflib.SequenceMatcher(None, " ".join(each[0]), " ".join(wanted)).ratio(), each) for each in here
    ]
    alike = max((ratio for ratio, _ in found), default=0.0)
    best = [each for ratio, each in found if ratio == alike]
    if alike < 0.8 or len(best) > 1:
        raise LookupError(f"{len(best)} places: {wanted}")
    _, path, node = best[0]
    lines = path.read_bytes().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    whole = b"".join(lines)
    return path, (whole[:start] + f"({mutant['after']})".encode() + whole[end:]).decode()


def reach(root: Path) -> dict[Path, dict[Path, int]]:
    """For each test file how many steps away each file is: by imports, lazy ones too, and "module:function" strings."""
    files = [path for part in ("brrr", "tools", "tests") for path in sorted((root / part).rglob("*.py"))]
    modules = {".".join(f.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): f for f in files}
    modules |= {f.stem: f for f in files if "tests" in f.parts}
    modules |= {name.rpartition(".")[2]: f for name, f in modules.items() if ".experiments." in name}  # by their names
    public = dict(re.findall(r'"(\w+)": "([\w.]+)"', (root / "brrr/__init__.py").read_text("utf-8")))
    if (typed := root / "brrr/__init__.pyi").exists():
        public |= {n: f"brrr.{m}" for m, n in re.findall(r"from \.([\w.]+) import (\w+)", typed.read_text("utf-8"))}

    def near(path: Path) -> set[Path]:
        names = {".".join((*path.parent.relative_to(root).parts, "work"))} if path.name == "__init__.py" else set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module == "brrr":
                names |= {public.get(each.name, f"brrr.{each.name}") for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {str(node.module), *(f"{node.module}.{each.name}" for each in node.names)}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "brrr":
                names.add(public.get(node.attr, ""))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value.partition(":")[0])
        return {modules[name] for name in names if name in modules} - {path}

    edges = {path: near(path) for path in files}
    found = {}
    for test in (path for path in files if path.name.startswith("test_")):
        far, now = {test: 0}, {test}
        while now:
            now = {after for path in now for after in edges[path]} - far.keys()
            far |= dict.fromkeys(now, max(far.values()) + 1)
        found[test] = far
    return found


def pytest(root: Path, arguments: list[str], seconds: float) -> tuple[int | None, str]:
    """The exit status and the first test that failed; None past the limit of processor time."""
    flags = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "--doctest-modules"]
    command = [sys.executable, "-m", "pytest", *flags, *arguments]
    limit = (int(seconds) + 1, int(seconds) + 5)
    pipes: Any = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    pipes |= {"env": {**os.environ, "PYTHONPATH": str(root)}}
    pipes |= {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CPU, limit)}
    with subprocess.Popen(command, cwd=root, **pipes) as run:
        try:
            said, status = run.communicate(timeout=10 * seconds + 60)[0], run.returncode
        except subprocess.TimeoutExpired:  # it waits for something for ever
            os.killpg(run.pid, signal.SIGKILL)
            said, status = run.communicate()[0], None
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
    return None if status == -signal.SIGXCPU else status, failed[1] if failed else said[-300:]


def spent() -> float:
    """The processor time of the tests so far, in seconds."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def try_out(root: Path, mutant: dict[str, Any], reached: Any, seconds: float, chosen: list[str]) -> dict[str, Any]:
    """Plant it, run the nearest tests until one fails that passes without it, and take it out again."""
    path, text = plant(root, mutant)
    right, end, ran = path.read_text("utf-8"), spent() + seconds, 0
    near = [test for test in reached if path in reached[test] and not {"gpu", "browser"} & set(test.parts)]
    near.sort(key=lambda test: (reached[test][path], test.stat().st_size))
    tests = chosen or [str(test.relative_to(root)) for test in near]
    result: dict[str, Any] = {**mutant, "now": str(path.relative_to(root)), "killed": False, "by": ""}
    try:
        path.write_text(text, "utf-8")
        for few in (4, 8, 16, len(tests)):  # a few at a time: collecting them all takes longer than the nearest take
            batch, first = tests[ran : ran + few], [str(path)] if not ran and not chosen else []
            if (batch or first) and (left := end - spent()) > 0:
                status, by = pytest(root, [*first, *batch], left)
                if status not in (0, 5):
                    result |= {"killed": status is not None, "by": by if status else "", "limit": status is None}
                    break
                ran += few
    finally:
        path.write_text(right, "utf-8")
    if result["killed"] and ".py" in result["by"] and pytest(root, [result["by"]], seconds)[0] != 0:
        result |= {"killed": None, "by": f"fails without it too: {result['by']}"}
    return {**result, "seconds": round(spent() - end + seconds)}


def main() -> int:
    """Draw mistakes, or run tests against a file of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["draw", "run"])
    parser.add_argument("given", help="how many to draw, or the file of those to run")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--of", nargs="*", default=["*.py"], help="draw from these files in brrr/ (default: all)")
    parser.add_argument("--out", type=Path, default=Path("mutants_results.json"))
    parser.add_argument("--seconds", type=float, default=120, help="the limit of each (default: 120)")
    parser.add_argument("--only", default="", help="their numbers, as 3,7")
    parser.add_argument("--tests", nargs="*", default=[], help="these in place of the nearest")
    options = parser.parse_args()
    if options.what == "draw":
        print(json.dumps(draw(Path.cwd(), int(options.given), options.seed, options.of), indent=1, ensure_ascii=False))
        return 0
    mutants, results = json.loads(Path(options.given).read_text("utf-8")), []
    left_out = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "node_modules", ".venv", "work")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(shutil.copytree(Path.cwd(), Path(folder) / "tree", ignore=left_out))
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # no stale .pyc of a file that changes twice in a second
        reached = reach(root)
        for number in map(int, options.only.split(",")) if options.only else range(len(mutants)):
            try:
                result = try_out(root, mutants[number], reached, options.seconds, options.tests)
            except LookupError as error:
                result = {**mutants[number], "killed": None, "by": str(error)}
            results.append({"number": number, **result})
            said = {True: "killed", False: "SURVIVED", None: "?"}[result["killed"]]
            print(number, said, *(result.get(k) for k in ("file", "function", "kind", "seconds", "by")), flush=True)
            options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
