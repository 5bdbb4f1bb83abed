"""The commands that the course adds to `brrr` (an entry point in brrr_course/pyproject.toml names them)."""

COMMANDS = {
    "lab": ("brrr_course.cli.lab", "copy the lessons into work/ and open them in JupyterLab"),
    "record": ("brrr_course.sources.record", "measure the course's experiments on this machine and keep them"),
    "join": ("brrr_course.sources.folders", "put recordings together that several GPUs of one model made"),
    "claims": ("brrr_course.lessons.claims_table", "every claim of the lessons with its verdict"),
    "new-lesson": ("brrr_course.cli.new_lesson", "write the skeleton of a lesson with its experiment"),
    "site": ("brrr_course.cli.site", "the course as static pages, which need no installation"),
    "class": ("brrr_course.cli.classroom", "share this machine's GPUs with a class, which then measures live"),
}
"""A command's module, whose `main` runs it, and its line of help."""
