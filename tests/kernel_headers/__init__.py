"""The headers that CUDA C++ kernel text is built with on the emulated device, family by family.

The programs are ordinary CUDA C++ and the expectations come from CUDA's documentation, NumPy, SciPy or exact arithmetic, so
the same tests run on a GPU.
"""
