"""Other ways to run the same work: CUDA Graphs, lanes that run side by side, a pipeline over them."""
