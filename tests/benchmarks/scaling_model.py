#!/usr/bin/env python3
"""A model of the time of a synchronous training step at N ranks: compute, buckets, all-reduce, overlap, stragglers.

Results: docs/developer-guide/averaging.md.

    scaling_model.py            tables: published points, measured ones, 4096 ranks

Units: seconds, bytes, bytes per second. The model computes results from its assumptions; it measures nothing.
"""

import math
from dataclasses import dataclass, replace

GBIT = 1e9 / 8
MB = 1e6
SERVED = 0.35  # share of a link's rate that parameter servers use over gRPC


@dataclass(frozen=True)
class Network:
    """The stages of the backward pass, in order. A stage is (its share of the time, bytes of the gradients that it
    completes)."""

    name: str
    stages: tuple

    @property
    def gradients(self):
        return sum(size for _, size in self.stages)


# The share of a stage in the time is its share of the network's multiplications. Each variable has 4 bytes. The papers'
# tables state the numbers of multiplications and of variables. The last layer comes first.
RESNET50 = Network("ResNet-50", ((0.01, 8.2 * MB), (0.20, 59.8 * MB), (0.37, 28.4 * MB), (0.26, 4.9 * MB), (0.16, 0.9 * MB)))
RESNET101 = Network(
    "ResNet-101", ((0.01, 8.2 * MB), (0.10, 59.8 * MB), (0.66, 104.4 * MB), (0.13, 4.9 * MB), (0.10, 0.9 * MB))
)
INCEPTION3 = Network("Inception V3", ((0.01, 8.2 * MB), (0.15, 43 * MB), (0.45, 37 * MB), (0.25, 6 * MB), (0.14, 1 * MB)))
VGG16 = Network(
    "VGG-16",
    ((0.002, 16.4 * MB), (0.003, 67.1 * MB), (0.008, 411 * MB), (0.09, 28.3 * MB), (0.30, 23.6 * MB), (0.30, 5.9 * MB),
     (0.18, 0.9 * MB), (0.117, 0.2 * MB)),
)  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    hosts: int
    towers: int  # per host
    step: float  # seconds that a tower alone takes for a step
    wire: float  # bytes per second that averaging can send, and receive, over a host's link
    inner: float  # bytes per second between the towers of a host
    latency: float = 20e-6  # seconds per message between hosts
    way: str = "two levels"  # or "ring" (one ring of all towers), or "servers" (parameter servers on the hosts)
    bucket: float = 4 * 2**20
    jitter: float = 0.01  # standard deviation of the time of a tower's step, relative to the mean time
    alone: float = 1.0  # published efficiency of the towers of one host, stragglers included; 1: unpublished

    @property
    def count(self):
        return self.hosts * self.towers


def buckets(network, size):
    """Yields, for each bucket, (share of the backward pass's time after which it is complete, bytes). Within a stage,
    gradients become complete evenly."""
    done, time, filled = [], 0.0, 0.0
    for share, amount in network.stages:
        left, begin = amount, time
        while filled + left >= size:
            left -= size - filled
            filled = 0.0
            done.append((begin + share * (1 - left / amount), size))
        filled += left
        time += share
    if filled:
        done.append((1.0, filled))
    return done


def all_reduce(size, cluster):
    """Returns how many seconds the all-reduce of one bucket takes."""
    n, hosts, towers = cluster.count, cluster.hosts, cluster.towers
    if n == 1:
        return 0.0
    # Each link transfers every byte twice, in 2 (n - 1) messages one after the other.
    if cluster.way == "ring" and hosts > 1:
        return 2 * (n - 1) * cluster.latency + 2 * (n - 1) / n * size / cluster.wire
    within = 2 * (towers - 1) / towers * size / cluster.inner
    if hosts == 1:
        return within
    messages = 2 * math.ceil(math.log2(hosts)) * cluster.latency
    return within + messages + 2 * (hosts - 1) / hosts * size / cluster.wire


def spread(count):
    """Returns the expected distance of the slowest tower from the mean, in standard deviations."""
    return math.sqrt(2 * math.log(count))


def step_time(network, cluster):
    """Returns (seconds of a step, part of these seconds by which averaging lengthens the step)."""
    forward, backward = cluster.step / 3, cluster.step * 2 / 3
    end = 0.0
    for ready, size in buckets(network, cluster.bucket):
        start = max(end, forward + ready * backward)
        end = start + all_reduce(size, cluster)
    waits = max(0.0, end - cluster.step)
    if cluster.way == "servers" and cluster.hosts > 1:  # a step begins when the tower has the new variables
        waits += (cluster.hosts - 1) / cluster.hosts * network.gradients / cluster.wire
    slowest = cluster.jitter * cluster.step * (spread(cluster.count) - (spread(cluster.towers) if cluster.alone < 1 else 0))
    return (cluster.step + slowest + waits) / cluster.alone, waits


def efficiency(network, cluster, base=1):
    """Returns the efficiency of all towers, relative to `base` towers."""
    time, _ = step_time(network, cluster)
    if base == 1:
        return cluster.step / time
    first = replace(cluster, hosts=max(1, base // cluster.towers), towers=min(base, cluster.towers))
    return step_time(network, first)[0] / time


def published():
    """Yields (description, network, cluster, number of towers to which the efficiency is relative, published
    efficiency)."""
    # Images/s of one P100 and of K80s: TensorFlow's benchmarks of May 2017
    # (tensorflow/docs_src/performance/benchmarks.md, synthetic data). The benchmarks do not include ResNet-101. The
    # time of ResNet-101 is interpolated between ResNet-50 (219 images/s) and ResNet-152 (91.8 images/s), by the numbers
    # of multiplications (3.8, 7.6 and 11.3 billion, He et al. 2015, table 1).
    resnet101 = 1 / (1 / 219 + (7.6 - 3.8) / (11.3 - 3.8) * (1 / 91.8 - 1 / 219))
    # Horovod: hosts of 4 P100, RoCE 25 Gbit/s, a ring of all GPUs, 64 MB of fusion, batch 64. Averaging uses 92 % of
    # the line rate; this share is fitted to six points.
    horovod = dict(towers=4, wire=0.92 * 25 * GBIT, inner=8e9, latency=10e-6, way="ring", bucket=64 * 2**20)
    for hosts, points in ((32, (0.90, 0.90, 0.79)), (128, (0.90, 0.90, 0.68))):
        rates = ((RESNET101, resnet101), (INCEPTION3, 142), (VGG16, 154))
        for (network, rate), point in zip(rates, points):
            yield "Horovod", network, Cluster(hosts=hosts, step=64 / rate, **horovod), 1, point
    # Goyal et al.: hosts of 8 P100 (NVLink), Ethernet of 50 Gbit/s, two levels, halving and doubling; batch 32 per GPU.
    # Each of the 161 gradients is averaged alone as soon as it is complete (their section 4). That averaging uses 80 %
    # of the line rate is an assumption. The latency of 45 us per message is fitted to this one point, so the point does
    # not confirm the model.
    goyal = Cluster(
        hosts=32, towers=8, step=32 / 195, wire=0.8 * 50 * GBIT, inner=15e9, latency=45e-6, bucket=RESNET50.gradients / 161
    )
    yield "Goyal et al.", RESNET50, goyal, 8, 0.90
    # TensorFlow 1.1: EC2's hosts of 8 K80, 20 Gbit/s, parameter servers with gRPC. Images/s of 1, 8, 16, 32 and 64
    # GPUs, batch 64. The efficiency of one host also follows from these numbers. The servers use the share SERVED of
    # the line rate, which is fitted to the points of 64 GPUs.
    for network, rates in ((INCEPTION3, (29.7, 229, 459, 902, 1783)), (RESNET50, (52.4, 378, 751, 1388, 2744))):
        host = dict(towers=8, step=64 / rates[0], alone=rates[1] / 8 / rates[0])
        for hosts, rate in zip((2, 4, 8), rates[2:]):
            servers = Cluster(hosts=hosts, wire=SERVED * 20 * GBIT, inner=6e9, latency=100e-6, way="servers", **host)
            yield "TensorFlow", network, servers, 1, rate / (8 * hosts) / rates[0]


def measured():
    """Yields (bytes of gradients, Gbit/s of the link, milliseconds) for two levels, 2 hosts x 2 ranks
    (docs/benchmarks.md)."""
    for rate, times in ((1, (23.65, 47.80, 420.26)), (10, (3.98, 11.45, 64.77))):
        yield from ((size, rate, time) for size, time in zip((1.59 * MB, 4.27 * MB, 44.7 * MB), times))


def table(heads, rows):
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def main():
    rows, worst = [], 0.0
    for what, network, cluster, base, point in published():
        model = efficiency(network, cluster, base)
        worst = max(worst, abs(model - point))
        rows.append((what, network.name, cluster.count, f"{100 * point:.0f} %", f"{100 * model:.0f} %", f"{100 * (model - point):+.0f}"))
    table(("published by", "network", "towers", "published", "model", "points"), rows)
    print(f"largest difference: {100 * worst:.1f} points\n")

    rows = []
    for size, rate, milliseconds in measured():
        cluster = Cluster(hosts=2, towers=2, step=0.0, wire=rate * GBIT * 0.94, inner=4e9, latency=100e-6)
        # In the measurement, all buckets are ready at the same time. Each host first computes the sums of its ranks;
        # then the hosts compute the sums and means over all hosts.
        model = 1e3 * all_reduce(size, cluster)
        rows.append((f"{size / MB:.2f} MB", f"{rate} Gbit/s", f"{milliseconds:.1f}", f"{model:.1f}", f"{milliseconds / model:.2f}"))
    table(("gradients", "link", "measured, ms", "model, ms", "measured / model"), rows)

    rows = []
    for network, step in ((RESNET50, 64 / 1400), (VGG16, 64 / 900)):
        for hosts in (1, 8, 64, 512):
            for name, wire in (("100 Gbit/s", 100 * GBIT), ("400 Gbit/s", 400 * GBIT)):
                base = Cluster(hosts=hosts, towers=8, step=step, wire=0.8 * wire, inner=200e9, latency=10e-6)
                # With small buckets, the latency of the messages would dominate.
                ring = replace(base, way="ring", bucket=64 * 2**20)
                found = [efficiency(network, one) for one in (base, ring)]
                rows.append((network.name, 8 * hosts, name, *(f"{100 * one:.0f} %" for one in found)))
    table(("network", "towers", "link of a host of 8", "two levels", "ring of all"), rows)


if __name__ == "__main__":
    main()
