"""The exercises, one module each: what is asked, and `grade`, which marks the answer."""
