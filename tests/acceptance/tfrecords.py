"""Reads and writes TFRecord files of tf.train.Example, independently of the tested code.

Framing: uint64 length | uint32 masked CRC32C(length) | data | uint32 masked CRC32C(data), little-endian.
Example: field 1 Features { field 1 map entry { 1: key, 2: Feature { 1: bytes_list | 2: float_list | 3: int64_list } } };
each list holds its values in field 1.
"""

import gzip
import struct


def _make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def write_records(path, records, compress=False):
    content = b"".join(frame(record) for record in records)
    path.write_bytes(gzip.compress(content) if compress else content)


def read_records(path):
    """Returns the data of each record. Ignores checksums, and a last record that is truncated."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    records, position = [], 0
    while position + 16 <= len(content):
        (length,) = struct.unpack_from("<Q", content, position)
        data = content[position + 12 : position + 12 + length]
        position += 16 + length
        if position <= len(content):
            records.append(data)
    return records


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _length_delimited(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def feature(value, packed=True):
    """Encodes a Feature: bytes as a bytes_list, a list of float as a float_list, a list of int as an int64_list."""
    if isinstance(value, bytes):
        return _length_delimited(1, _length_delimited(1, value))
    if value and isinstance(value[0], float):
        return _length_delimited(2, _length_delimited(1, struct.pack(f"<{len(value)}f", *value)))
    if packed:
        return _length_delimited(3, _length_delimited(1, b"".join(map(varint, value))))
    return _length_delimited(3, b"".join(varint(1 << 3) + varint(item) for item in value))


def example(features, packed=True):
    """Encodes an Example with the features of a dict, in the order of the dict."""
    entries = (
        _length_delimited(1, key.encode()) + _length_delimited(2, feature(value, packed))
        for key, value in features.items()
    )
    return _length_delimited(1, b"".join(_length_delimited(1, entry) for entry in entries))


def _read_varint(data, position):
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def fields(data):
    """Yields (field number, value) for each field of a message. The value of a varint is an int; other values are
    bytes."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == 0:
            value, position = _read_varint(data, position)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, position = _read_varint(data, position)
            value = data[position : position + size]
            position += size
        yield tag >> 3, value


def _int64s(data):
    values = []
    for _, item in fields(data):
        if isinstance(item, int):
            values.append(item)
            continue
        position = 0
        while position < len(item):
            value, position = _read_varint(item, position)
            values.append(value)
    return [value - (1 << 64) if value >> 63 else value for value in values]


def parse_example(data, keys):
    """Returns {key: bytes or list of int} of the features with the names in `keys`."""
    found = {}
    for _, features in fields(data):
        for _, entry in fields(features):
            parts = dict(fields(entry))
            key = parts[1].decode()
            if key in keys:
                ((kind, values),) = fields(parts[2])
                found[key] = next(value for _, value in fields(values)) if kind == 1 else _int64s(values)
    return found
