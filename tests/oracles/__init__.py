"""Brute force that the tests compare against.

Everything here is exact (integers and ``fractions.Fraction``), follows the definitions word for
word, and shares nothing with the package: slow and obvious on purpose.
"""
