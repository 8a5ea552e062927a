"""The CUDA engine gives the CPU's bits.

Without a GPU its logic runs on torch's CPU device with the plain torch kernels, and the arithmetic
of the half-precision filter's bound is tested against integers; with one, so are the kernels.
"""
