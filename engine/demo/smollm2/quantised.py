"""Matrices as small integers times scales: how a part of what ships is stored.

A matrix [R, C] is `levels`, int8 of the same shape, and `scale`, bf16 [R / r, C / c]: the weight is
levels · scale of its tile of r × c, rounded once to bf16, to nearest even. The product of the two is
exact in float32, so everything that rounds to bf16 gets the same weights.
"""

import numpy as np
import tensor_file

LEVELS, SCALE = ".levels", ".scale"


def scales(values, tile, most):
    """float32 [R / r, C / c] that hold bf16 numbers; the largest of a tile becomes ± most."""
    rows, columns = values.shape
    tiles = np.abs(values).reshape(rows // tile[0], tile[0], columns // tile[1], tile[1])
    largest = np.maximum(tiles.max((1, 3)) / most, np.float32(1e-20))
    return tensor_file.Bf16(largest).values()


def spread(scale, shape):
    """A tile's scale at every place of the matrix."""
    rows, columns = (big // small for big, small in zip(shape, scale.shape))
    return scale.repeat(rows, 0).repeat(columns, 1)


def levels(values, scale, most):
    found = np.rint(values / spread(scale, values.shape))
    return found.clip(-most, most).astype(np.int8)


def weights(levels, scale):
    """float32 that holds bf16 numbers."""
    exact = levels.astype(np.float32) * spread(scale, levels.shape)
    return tensor_file.Bf16(exact).values()


def stored(name, values, tile, most):
    """The two tensors of one matrix, as tensor_file writes them."""
    values = np.asarray(values, np.float32)
    scale = scales(values, tile, most)
    found = levels(values, scale, most)
    return {name + LEVELS: found, name + SCALE: tensor_file.Bf16(scale)}


def whole(tensors):
    """{name: array} with the weights in the place of levels and scales."""
    out = {}
    for name, values in tensors.items():
        if name.endswith(LEVELS):
            stem = name[: -len(LEVELS)]
            out[stem] = weights(values, tensors[stem + SCALE])
        elif not name.endswith(SCALE):
            out[name] = values
    return out
