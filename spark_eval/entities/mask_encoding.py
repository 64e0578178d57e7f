"""Masks and join keys as Arrow columns, and back."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from spark_eval.columns import Codes
from spark_eval.plans import Keys, Masks, Side

_encode = msgspec.msgpack.Encoder().encode


def encode_masks(side: Side) -> pa.Array:
    rows, width = side.masks.shape
    fixed = pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(side.masks)])
    return fixed.cast(pa.binary())


def encode_keys(side: Side) -> pa.Array:
    """What the joins compare, one text for each row."""
    if not side.keys:
        return pa.nulls(side.rows, pa.binary())
    distinct, rows = np.unique(np.stack([each.codes for each in side.keys]), axis=1, return_inverse=True)
    texts = [
        _encode([each.values[code] for each, code in zip(side.keys, codes, strict=True)])
        for codes in distinct.T.tolist()
    ]
    return pa.array(texts, pa.binary()).take(pa.array(rows.reshape(-1)))


def decode(found: pa.Table, joins: int) -> Side:
    """The side that stands in the columns `mask` and `keys`."""
    return Side(_masks(found.column("mask")), _keys(found.column("keys"), joins))


def _masks(column: pa.ChunkedArray) -> Masks:
    masks = b"".join(column.to_pylist())
    return np.frombuffer(masks, np.uint8).reshape(len(column), -1)


def _keys(column: pa.ChunkedArray, joins: int) -> tuple[Keys, ...]:
    if not joins:
        return ()
    encoded = column.combine_chunks().dictionary_encode()
    rows = encoded.indices.to_numpy().astype(np.int64)
    together = [msgspec.msgpack.decode(each) for each in encoded.dictionary.to_pylist()]
    return tuple(_distinct([each[join] for each in together], rows) for join in range(joins))


def _distinct(values: list[list[object]], rows: Codes) -> Keys:
    places: dict[bytes, int] = {}
    codes = [places.setdefault(msgspec.msgpack.encode(each), len(places)) for each in values]
    return Keys(np.array(codes)[rows], [tuple(msgspec.msgpack.decode(each)) for each in places])
