"""What is CUDA's own: the device, its datasheet and clocks, NVRTC, launching, raw cuBLAS."""
