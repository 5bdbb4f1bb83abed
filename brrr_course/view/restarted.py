"""What a kernel of `brrr lab` runs first.

Where a cell lacks a name, as after a restart, it is told what defines it; where it lacks torch, it waits for it.
"""


def _tell() -> None:
    """Within a function, so that no name of it is the student's. In a terminal's Python it does nothing."""
    from contextlib import suppress

    def told(shell: object, kind: object, error: object, trace: object, tb_offset: object = None) -> None:
        shown.showtraceback((kind, error, trace), tb_offset)
        print("Was the kernel restarted? Choose Run > Run All Above Selected Cell.")

    if shown := globals().get("get_ipython", lambda: None)():
        shown.set_custom_exc((NameError,), told)
        with suppress(ImportError):  # a kernel of another Python
            from brrr_course.view.coming import watch

            watch()


_tell()
del _tell
