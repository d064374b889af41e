#!/usr/bin/env python3
"""Writes the initial inputs of the fuzz targets' corpora: make_seeds.py DIRECTORY

The inputs are samples of TensorFlow and of published data sets (tests/data/samples), option files (jobs/recipes), and
short texts in this script. docs/developer-guide/tests.md describes how to add inputs that fuzzing has found.
"""
import argparse
import bz2
import gzip
import io
import lzma
import pathlib
import struct
import tarfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
SAMPLES = TESTS / "data/samples"


def first_records(path, count):
    """Returns the bytes of the first `count` records of a TFRecord file, and a list of the data of these records."""
    data, end, records = path.read_bytes(), 0, []
    for _ in range(count):
        length = struct.unpack_from("<Q", data, end)[0]
        records.append(data[end + 12:end + 12 + length])
        end += 16 + length
    return data[:end], records


def record_seeds():
    plain, _ = first_records(SAMPLES / "tensorflow.tfrecord", 2)
    return {"tensorflow": plain, "gzip": gzip.compress(plain, mtime=0), "two_members": gzip.compress(plain, mtime=0) * 2,
            "empty_file": b""}


def varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def feature(key, kind, values):
    """Returns an entry of the map of features. `kind`: 1 for bytes, 2 for floats, 3 for int64."""
    return field(1, field(1, key) + field(2, field(kind, values)))


def example_seeds():
    """Returns tf.train.Examples with the keys that the fuzz target reads, each encoded as one of several writers
    encodes them."""
    image, label = feature(b"i", 1, field(1, bytes(range(16)))), feature(b"l", 3, field(1, varint(7)))
    floats = feature(b"f", 2, field(1, struct.pack("<2f", 1, 2)))
    many = feature(b"p", 3, field(1, bytes(32)))
    return {"usual": field(1, image + label), "other_order": field(1, label + image),
            "unpacked": field(1, image + feature(b"l", 3, b"\x08\x07")), "more": field(1, image + floats + many + label),
            "negative": field(1, image + feature(b"l", 3, field(1, varint(2**64 - 1))))}


def pictures(*suffixes):
    return {path.name: path.read_bytes() for path in sorted((TESTS / "data/pictures").iterdir()) if path.suffix in suffixes}


def picture_seeds():
    return pictures(".jpg", ".png")


def tar(form):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in (("d/data_batch_1.bin", b"\1" * 100), ("n" * 90 + "/" + "m" * 60, b"x")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "d"
        archive.addfile(link)
    return out.getvalue()[:6144]


def archive_seeds():
    plain = tar(tarfile.USTAR_FORMAT)
    forms = {"ustar": plain, "gnu": tar(tarfile.GNU_FORMAT), "pax": tar(tarfile.PAX_FORMAT)}
    return forms | {"gzip": gzip.compress(plain, mtime=0), "xz": lzma.compress(plain), "bzip2": bz2.compress(plain)}


def idx(item, *shape):
    return b"\0\0\x08" + bytes([1 + len(shape)]) + struct.pack(f">{1 + len(shape)}I", 2, *shape) + item * 2


def source_seeds():
    images, labels = idx(b"x" * 784, 28, 28), idx(b"\5")
    batch = (b"\3" + b"y" * 3072) * 2
    files = [images, labels, images, labels, batch, batch]
    seeds = {f"file{i}": bytes([i]) + data for i, data in enumerate(files)}
    return seeds | {f"gzip{i}": bytes([i]) + gzip.compress(data, mtime=0) for i, data in enumerate(files)}


def metrics_seeds():
    line = '{{"loss":2.3,"step":{},"rank_seconds":[0.1,0.2],"time":1700000000.5}}\n'
    text = "".join(line.format(step) for step in (10, 20, 30, 20))
    return {"repeated": b"\x19" + text.encode(), "cut": b"\x0f" + text.encode()[:-9],
            "others": b"\x05" + b'[1]\nnull\n{"step":"x"}\n{"event":{"a":[{}]}}\n\n{"step":1e400}\n\0\0\n'}


def options_seeds():
    recipes = {path.stem: path.read_bytes() for path in sorted((TESTS.parent / "jobs/recipes").glob("*.cfg"))}
    schedules = {"nesterov": b"optimizer = nesterov\nschedule = cosine\nwarmup-steps = 9\nwarmup-from = 0.1\n",
                 "lamb": b"optimizer=lamb\nadam-beta1=.8\nschedule=step\nmilestones=3, 5,9\nmilestone-factor=.5\nweight-decay=1e-4\n",
                 "groups": b"group = */biases: rate=64, decay=0, frozen-after=300\ngroup = a*:frozen-until=5\n",
                 "knots": b"schedule = triangular\nschedule-knots = 0:0.1,20:5e-1 , 40:0\n"}
    return recipes | schedules | {"margin": b"time-limit = slurm\ntime_margin = 9007199254740992\n", "lists": b"data = a\ndata = b*\neval_data=c\nkeep-best = no\ntime-limit = slurm\ndevice=cpu#x\n"}


def description_seeds():
    text = (b'{"batch_size":50,"learning_rate":0.1,"shuffle":false,"seed":18446744073709551615,"precision":"bf16",'
            b'"instruction set":"avx2","evaluation correct":9,"evaluation total":10,"evaluation record checksum":7}')
    return {"run": text, "nested": b'{"seed":[[{"a":[]}]],"evaluation total":1e9,"precision":{"x":null}}', "no_object": b"[]"}


def holder_seeds():
    return {"run": b"host node-1, process 4711, job 99", "beats": b"host n, process 4711, job 99\nbeat 17\n\n\n\n\n\n\n\n\n\n\n",
            "terminal": b"\x1b]0;x\x07\r\n\xc2\x9b2J\xff\0abc"}


def safetensors_seeds():
    def file(header, data):
        text = header.encode() + b"\n"
        return struct.pack("<Q", len(text)) + text + data

    one = '"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}}'
    types = ",".join(one.format(kind, kind, "[1,2]", 8 * i, 8 * i + 8) for i, kind in enumerate(("F32", "U32", "I32")))
    halves = one.format("a", "F16", "[2]", 0, 4) + "," + one.format("b", "BF16", "[]", 4, 6) + "," + one.format("c", "U8", "[0,3]", 6, 6)
    return {"types": file("{" + types + "}", b"x" * 24), "halves": file('{"__metadata__":{"format":"pt"},' + halves + "}", b"\0<\xff\x7f\x80?"),
            "empty": file("{}", b""), "nested": file('{"a":[[[{}]]],"b":{"shape":[18446744073709551615]}}', b"")}


def onnx_file_seeds():
    """Returns models whose nodes compute shapes: Constant, Shape, Gather, Concat, Slice, Reshape, Transpose,
    arithmetic."""

    def number(tag, value):
        return varint(tag << 3) + varint(value % 2**64)

    def tensor(name, shape, values, kind=7):
        data = struct.pack(f"<{len(values)}{'q' if kind == 7 else 'f'}", *values)
        return b"".join(number(1, extent) for extent in shape) + number(2, kind) + field(8, name) + field(9, data)

    def attribute(name, value):
        if isinstance(value, bytes):
            return field(5, field(1, name) + field(5, value) + number(20, 4))
        if isinstance(value, list):
            return field(5, field(1, name) + b"".join(number(8, one) for one in value) + number(20, 7))
        return field(5, field(1, name) + number(3, value) + number(20, 2))

    def node(kind, inputs, output, **attributes):
        body = b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, b"n_" + output) + field(4, kind)
        return field(1, body + b"".join(attribute(name.encode(), value) for name, value in attributes.items()))

    def model(*nodes):
        extents = b"".join(field(1, number(1, extent)) for extent in (1, 3, 8, 8))
        image = field(1, b"x") + field(2, field(1, number(1, 1) + field(2, extents)))
        arrays = {b"i": ((4,), (1, 3, 8, 8), 7), b"o": ((1,), (1,), 7), b"z": ((1,), (0,), 7), b"f": ((2, 2), (1, 2, 3, 4), 1)}
        graph = b"".join(nodes) + b"".join(field(5, tensor(name, *values)) for name, values in arrays.items())
        graph += field(11, image) + field(12, field(1, b"y"))
        return number(1, 8) + field(7, graph) + field(8, number(2, 17))

    shapes = model(
        node(b"Gather", (b"i", b"o"), b"a"), node(b"Concat", (b"a", b"o", b"z"), b"b", axis=0), node(b"Slice", (b"i", b"z", b"o", b"z", b"o"), b"c"),
        node(b"ConstantOfShape", (b"i",), b"d", value=tensor(b"v", (1,), (7,))), node(b"Reshape", (b"d", b"i"), b"e"),
        node(b"Unsqueeze", (b"a", b"z"), b"g"), node(b"Squeeze", (b"g",), b"h"), node(b"Range", (b"z", b"i", b"o"), b"j"))  # fmt: skip
    numbers = model(
        node(b"Transpose", (b"f",), b"a", perm=[1, 0]), node(b"Mul", (b"a", b"f"), b"b"), node(b"Where", (b"o", b"b", b"f"), b"c"),
        node(b"ReduceMean", (b"b",), b"d", axes=[0], keepdims=0), node(b"Cast", (b"b",), b"e", to=7), node(b"Mod", (b"e", b"o"), b"g"),
        node(b"Expand", (b"o", b"i"), b"h"), node(b"Tile", (b"f", b"h"), b"j"), node(b"CumSum", (b"f", b"z"), b"k"))  # fmt: skip
    outside = field(5, number(1, 2) + number(2, 1) + field(8, b"w") + field(13, field(1, b"location") + field(2, b"w.bin")) + number(14, 1))
    return {"shapes": shapes, "numbers": numbers, "external": number(1, 8) + field(7, node(b"Relu", (b"x",), b"y") + outside) + field(8, number(2, 17))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    makers = [value for name, value in globals().items() if name.endswith("_seeds")]
    for maker in makers:
        folder = directory / maker.__name__.removesuffix("_seeds")
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in maker().items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
