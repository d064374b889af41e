"""Measures torch.distributed's all-reduce with gloo, in milliseconds; averaging_between_hosts.py starts it with mpirun."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

iterations, address = int(sys.argv[1]), sys.argv[2]
rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=size)
for count in (397510, 1068298, 11173962):
    values, spent = torch.full((count,), 1e-3), []
    for i in range(-2, iterations):
        values.fill_(1e-3)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(values)
        slowest = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if i >= 0:
            spent.append(1e3 * slowest.item())
    if rank == 0:
        print(f"{count * 4 / 1e6:.2f} MB; gloo; {statistics.median(spent):.2f}", flush=True)
dist.destroy_process_group()
