#!/usr/bin/env python3
"""Packs scikit-learn's `load_digits` (UCI "Optical Recognition of Handwritten Digits") into `digits.bin`.

    pip install scikit-learn numpy
    python3 examples/data/make_digits.py

Layout: see README.md beside this file.
"""
import os
import struct

import numpy as np
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    digits = load_digits()
    pixels = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    assert np.array_equal(pixels, digits.images) and pixels.max() == 16 and labels.max() == 9
    count, height, width = pixels.shape
    with open(os.path.join(HERE, "digits.bin"), "wb") as f:
        f.write(struct.pack("<4sIII", b"DIG1", count, height, width))
        f.write(pixels.tobytes())
        f.write(labels.tobytes())
    print(f"digits.bin: {count} images of {height}x{width}")


if __name__ == "__main__":
    main()
