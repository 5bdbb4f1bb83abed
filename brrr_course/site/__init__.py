"""The course as static pages: what Python drew and said at every place of the sliders, and a script that shows it."""
