"""One rank of torch.distributed's all_reduce with gloo on the CPU; averaging_vs_mpi.py starts it.

Before each all_reduce every rank writes its values and waits in a barrier. The time of the operation ends when the last
rank has finished it. Rank 0 prints {"<bytes>": median microseconds}.
"""

import argparse
import datetime
import json
import statistics
import time

import torch
import torch.distributed as dist


def microseconds(values):
    values.fill_(1e-3)
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(values)
    slowest = torch.tensor((time.perf_counter() - start) * 1e6, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rendezvous", required=True, help="a file that does not exist yet")
    parser.add_argument("--counts", type=int, nargs="+", required=True, help="floats")
    parser.add_argument("--iterations", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{options.rendezvous}",
        rank=options.rank,
        world_size=options.ranks,
        timeout=datetime.timedelta(seconds=60),
    )
    found = {}
    for count in options.counts:
        values = torch.zeros(count)
        for _ in range(10):
            microseconds(values)
        found[4 * count] = statistics.median(microseconds(values) for _ in range(options.iterations))
    if options.rank == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
