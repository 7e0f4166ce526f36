"""A library with NVRTC's interface that builds kernels from source text for the emulated device, with the host compiler."""
