"""Tests tfrecord_convert --download with a web server on this machine. The server cuts each connection.

A download can succeed only with the published data sets: --data must be MNIST, --cifar10 must be CIFAR-10. With other
files, such as Fashion-MNIST's, the check expects that the program refuses the download because of the checksum.
"""

import contextlib
import gzip
import hashlib
import http.server
import os
import re
import tarfile
import threading

import cifar
import programs
from bad_input import DATA
from programs import Result

IMAGES = "train-images-idx3-ubyte"
IMAGES_SHA256 = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
TEST_SHA256 = "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"
CUT = 5_000_000  # bytes after which the server ends a connection


def check(context):
    """downloads"""
    os.environ["no_proxy"] = "127.0.0.1"
    folder = context.directory("server")
    folder.mkdir()
    for path in sorted(context.images.glob("*-ubyte*")):
        data = path.read_bytes()
        plain = gzip.decompress(data) if path.suffix == ".gz" else data
        (folder / f"{path.name.removesuffix('.gz')}.gz").write_bytes(gzip.compress(plain, 1))
    is_mnist = hashlib.sha256(gzip.decompress((folder / f"{IMAGES}.gz").read_bytes())).hexdigest() == IMAGES_SHA256
    yield from _convert(context, folder, "mnist", is_mnist, context.images)
    batches = cifar.read_batches(context.cifar10)
    source = context.directory("cifar-10-batches-bin")
    source.mkdir()
    for name, records in batches.items():
        (source / name).write_bytes(records.tobytes())
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(source, "cifar-10-batches-bin")
    is_cifar10 = hashlib.sha256((source / cifar.TEST).read_bytes()).hexdigest() == TEST_SHA256
    yield from _convert(context, folder, "cifar10", is_cifar10, source)


def _convert(context, folder, name, is_published, source):
    output = context.directory(name)
    with _server(folder) as (address, ranges):
        command = ("tfrecord_convert", name, "--download", "--mirror", address, "--output", output)
        done = context.run(*command, expect=None)
        if not is_published:
            wrong = "" if done.code == DATA and "is not the published file" in done.errors else done.explain()
            yield Result(f"download: other files than those of {name} are refused", not wrong, wrong or done.lines[-1])
            return
        expected = context.directory(name)
        context.run("tfrecord_convert", name, "--input", source, "--output", expected)
        names = [path.name for path in sorted(expected.iterdir())]
        same = done.code == 0 and all((output / n).read_bytes() == (expected / n).read_bytes() for n in names)
        yield Result(f"download: {name}, equal to a conversion of local files", same, f"{names}" if same else done.explain())
        yield Result(f"download: {name}, cut connections continue", bool(ranges), f"{len(ranges)} ranges, {ranges[-1:]}")
    again = context.run(*command, expect=None)  # now the server has ended
    wrong = "" if again.code == 0 and "downloaded" not in again.output else again.explain()
    yield Result(f"download: {name} is not downloaded again", not wrong, wrong or "only checked")


@contextlib.contextmanager
def _server(folder):
    """Starts a server of the files in `folder`. Yields (address, list of the ranges that were requested)."""
    ranges = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = folder / self.path.lstrip("/")
            if not path.is_file():
                self.send_error(404)
                return
            data = path.read_bytes()
            wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            first = int(wanted[1]) if wanted else 0
            if wanted:
                ranges.append(f"{path.name} from {first}")
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
            else:
                self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()[:16]}"')
            self.send_header("Content-Length", str(len(data) - first))
            self.end_headers()
            self.wfile.write(data[first : first + CUT])  # then the connection ends

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", ranges
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    programs.main(check)
