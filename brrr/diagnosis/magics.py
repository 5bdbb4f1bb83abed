"""`%brrr` and `%%brrr`: like `%timeit`, but true on a GPU.

%load_ext brrr
%brrr model(x)              # one line: time with its interval, rates, share of the roof, what limits it
%brrr -v model(x)           # and all times, and the operators
result = %brrr -o model(x)  # returns it

In `%%brrr` the cell is measured, and what stands behind `%%brrr` is run before, unmeasured.
"""

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand

from brrr.core.errors import BrrrError
from brrr.diagnosis.timed import Timed, called, step_from, timed

NEVER = {
    "n": "--budget SECONDS: as many calls are made as an interval needs",
    "r": "--budget SECONDS: rounds are taken until the interval is narrow",
    "t": "nothing: clocks are chosen by what they are true of",
    "c": "nothing: clocks are chosen by what they are true of",
}
"""Options of `%timeit` that have no meaning here, and what to give in their place."""


@magics_class
class BrrrMagics(Magics):
    """The magics; `%load_ext brrr` registers them."""

    @needs_local_scope
    @no_var_expand  # `{x}` and `$x` are the code's own, as in %timeit
    @line_cell_magic
    def brrr(self, line: str = "", cell: str | None = None, local_ns: Any = None) -> Timed | None:
        """Time a statement, or a cell, on the CPU and on a GPU alike.

        %brrr [-p DIGITS] [-q] [-o] [-v] [--cold] [--budget SECONDS] [--device KIND] statement

        -p: digits shown. -q: print nothing. -o: return the result. -v: all times, and the operators. --cold: with
        empty caches. --budget: how long to measure (0.2 s). --device: its kind, else the GPU if torch uses one.
        """
        wanted = "n:r:tcp:qov", "cold", "budget=", "device="
        given, rest = self.parse_options(line, *wanted, posix=False, strict=False, preserve_non_opts=True)
        for name, instead in NEVER.items():
            if name in given:
                raise UsageError(f"%brrr: -{name} has no meaning here; give {instead}")
        digits, budget_s = _number(given.get("p", 3), "-p", int), _number(given.get("budget", 0.2), "--budget", float)
        setup, code = ("", rest) if cell is None else (rest, cell)
        if not code.strip():
            return None
        shell: Any = self.shell
        names = shell.user_ns if not local_ns else {**shell.user_ns, **local_ns}
        step = step_from(shell.transform_cell(setup), shell.transform_cell(code), names)
        first_s = called(step)
        try:
            cache: Any = "cold" if "cold" in given else "hot"
            found = timed(step, device=given.get("device"), cache=cache, budget_s=budget_s, first_s=first_s)
        except BrrrError as error:
            raise UsageError(f"%brrr: {error}") from None
        if "q" not in given:
            print(found.details() if "v" in given else "\n".join([found.text(digits), *found.measurement.notes]))
        return found if "o" in given else None


def _number(text: Any, option: str, kind: Any) -> Any:
    try:
        found = kind(text)
    except ValueError:
        found = 0
    if not found > 0:
        raise UsageError(f"%brrr: {option} is {text!r}; expected a number above 0")
    return found


def load_ipython_extension(shell: Any) -> None:
    """Add the magics ``%brrr`` and ``%%brrr`` to IPython; ``%load_ext brrr`` calls this.

    >>> %load_ext brrr          # doctest: +SKIP
    >>> %brrr model(x)          # doctest: +SKIP

    ``%brrr`` is like ``%timeit``, but true on a GPU: one line with the time and its interval, kernels, the host's time,
    FLOP/s, B/s, the share of the roofline, and what limits the call. ``%%brrr`` times a cell.

    Parameters
    ----------
    shell : InteractiveShell
        IPython's shell.
    """
    shell.register_magics(BrrrMagics)
