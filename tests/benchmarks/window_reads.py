#!/usr/bin/env python3
"""Counts the disk reads of picture_benchmark for a dataset, with shuffling of the whole dataset and with a shuffle
window.

    sudo window_reads.py --bin build/bin --disk vda --data 'data/set/train-*'

Linux only. Each run starts with an empty page cache, so the program needs root to empty it. The counts come from
/sys/block/DISK/stat; the script subtracts the counts of a run that only opens the dataset. No other program should read
from the disk. The dataset must be larger than the memory of the machine or control group; otherwise, the page cache
soon contains all of it.
"""

import argparse
import glob
import pathlib
import statistics

import measure

KIB = 1024
SECTOR = 512


def disk_reads(disk):
    """Returns (requests, bytes) that were read from the disk so far."""
    requests, _, sectors, *_ = map(int, pathlib.Path(f"/sys/block/{disk}/stat").read_text().split())
    return requests, sectors * SECTOR


def cold_run(options, window, files, seconds):
    """Runs picture_benchmark with an empty page cache. Returns (images per second, images, requests, bytes)."""
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    requests, size = disk_reads(options.disk)
    program = options.bin / "picture_benchmark"
    output, _ = measure.run([program, options.threads, seconds, options.size, window, *files])
    rate, count = (float(text.split()[0]) for text in output.split(","))
    more_requests, more_size = (after - before for after, before in zip(disk_reads(options.disk), (requests, size)))
    return rate, count, more_requests, more_size


def reading(options, window, files):
    """Returns (images per second, requests per 1,000 images, bytes per request, bytes per image)."""
    _, _, requests_to_open, size_to_open = cold_run(options, window, files, 0)
    rate, count, requests, size = cold_run(options, window, files, options.seconds)
    requests, size = max(requests - requests_to_open, 1), size - size_to_open
    return rate, 1000 * requests / count, size / requests, size / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--disk", required=True, help="disk's name in /sys/block")
    parser.add_argument("--data", required=True, help="pattern of the record files, made by `tfrecord_convert images`")
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 10000, 100000], help="records; 0: all")
    parser.add_argument("--size", type=int, default=32, help="of the images: small ones cost little time beside reading")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    files = sorted(glob.glob(options.data))
    runs = {window: [] for window in options.windows}
    for _ in range(options.rounds):
        for window in options.windows:
            runs[window].append(reading(options, window, files))
    print("| shuffled | images/s | lowest to highest | reads a 1,000 images | KiB a read | KiB an image |\n|---|---|---|---|---|---|")
    for window, found in runs.items():
        rates, requests, request_bytes, image_bytes = zip(*found)
        print(
            f"| {f'{window:,} at a time' if window else 'whole'} | {statistics.median(rates):,.0f} "
            f"| {min(rates):,.0f} to {max(rates):,.0f} | {statistics.median(requests):,.0f} "
            f"| {statistics.median(request_bytes) / KIB:,.0f} | {statistics.median(image_bytes) / KIB:.1f} |"
        )


if __name__ == "__main__":
    main()
