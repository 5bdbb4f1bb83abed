"""One GPU for a class: a gateway that students ask for measurements, workers that measure, and a cache on disk."""
