"""Shared type aliases of numpy arrays: Int64Array, FloatArray, ArrayLike."""
