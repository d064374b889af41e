// Communicator: moves float arrays between towers. What steers a run (options, errors, counts) goes through Mpi.
//
// Sums are taken in rank order 0, 1, ..., n-1 for every element, however the array is cut into buckets, so equal runs
// give equal bits. On several hosts each host's ranks are summed first, in rank order, then the hosts' sums, in the
// order of their lowest ranks: (host 0's ranks) + (host 1's ranks) + ...; with one rank a host that is rank order
// again. Or as a binary tree over the ranks (core/sum_in_order.h), on several hosts over each host's and then over the
// hosts. NCCL alone orders them itself, by the GPUs' links and the bucket's size: all ranks get the same bits, and so
// do equal runs on the same GPUs.
//
// Cycle, per step: acquire, write gradients, start_allreduce_mean for each bucket as it becomes complete (same order on
// all ranks), finish, read. Errors: failed, when peers or links are lost, or a wait takes too long (wait_limit.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "carillon/comm/wire.h"
#include "carillon/core/sum_in_order.h"
#include "carillon/device/device.h"
#include "src/comm/allreduce/shared_host_memory.h"
#include "src/comm/mpi/mpi.h"
#include "src/comm/stall/wait_limit.h"

namespace carillon {

/// Its end is collective too, but for one that an exception brings.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// "self", "mpi shared memory" (one host), "mpi" (several; "mpi, bf16"), "nccl"; of GPUs that average through the
  /// host "mpi, staged" and so on.
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Collective: zeroed memory of the tower's device, aligned to tensor_alignment_bytes, from which arrays are
  /// averaged. Called once; freed before the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Enqueues: after this, `allocate`d memory may be written (peers have read what they wanted of the last step).
  virtual void acquire(Stream& stream) = 0;
  /// Enqueues the replacement of every element by its mean over the towers, up to result_scale(). `bucket` lies in
  /// `allocate`d memory.
  virtual void start_allreduce_mean(std::span<float> bucket, Stream& stream) = 0;
  /// By what all that start_allreduce_mean leaves is to be multiplied to be means: 1, or 1 / size() where it leaves
  /// sums, which the update then divides on its way.
  virtual float result_scale() const { return 1.0f; }
  /// As start_allreduce_mean, but never rounded for its way (Averaging::wire).
  virtual void start_exact_allreduce_mean(std::span<float> bucket, Stream& stream) {
    start_allreduce_mean(bucket, stream);
  }
  /// Whether start_allreduce_mean rounds.
  virtual bool rounds() const { return false; }
  /// Enqueues the wait for all buckets started.
  virtual void finish(Stream& stream) = 0;

  /// Root's values to every tower, at once. Collective, outside acquire ... finish.
  virtual void broadcast(std::span<float> values, int root) = 0;
  /// Every tower's values become their mean over the towers, at once. For small arrays anywhere in the device's memory,
  /// such as running statistics. Collective, outside acquire ... finish.
  virtual void mean(std::span<float> values) = 0;

  /// Every tower's slice of `values` (reduction_slice) to all, at once. Collective; also between acquire and finish.
  /// Errors: failed, on a GPU.
  virtual void all_gather(std::span<float> values);

  /// Null where the towers have no memory in common: GPUs, several hosts. Lives as long as the communicator. Where the
  /// means are used through it instead of start_allreduce_mean, a step needs neither acquire nor finish.
  virtual SharedHostMemory* shared_host_memory() { return nullptr; }

  /// Whether acquire, start_allreduce_mean and finish may be captured in a CUDA graph. Such graphs are destroyed before
  /// the communicator, which waits for that. What they do on the host then happens once, at the capture.
  virtual bool capturable() const { return false; }
  /// Called now and then by who waits for a device, on the main thread. Errors: failed when a peer is known to be lost;
  /// what was enqueued is then cut short, and the values that it leaves mean nothing.
  virtual void check_peers() {}
};

/// How the means of start_allreduce_mean and SharedHostMemory::means_of are made, of several towers on CPUs. (`mean`
/// divides by the number of towers; between hosts its sums have this order, too.)
struct Averaging {
  SumOrder order = SumOrder::sequential;
  std::int64_t divisor = 0;  ///< of the sum over the towers; 0: their number
  Wire wire = Wire::fp32;
};

/// Whether the tree over each host's ranks and then over the hosts is that over all ranks: hosts of consecutive ranks,
/// 2^k each, the last perhaps fewer. `hosts`: by rank, as Mpi::hosts.
bool sums_as_one_tree(std::span<const int> hosts);

/// The communicator that `choice` (auto | nccl | mpi) names for these ranks and devices. Collective.
///   one rank: self, but NCCL where it is asked for
///   CPUs: shared memory within a host, messages between hosts
///   GPUs: NCCL when each rank has its own; else, and for mpi, the CPUs' way with copies in the host's memory
/// Errors: no_device (nccl without a GPU for each rank; ranks on CPUs and ranks on GPUs).
std::unique_ptr<Communicator> make_communicator(const Mpi& mpi, Device& device, std::string_view choice = "auto",
                                                WaitLimit limit = {}, Averaging averaging = {});

/// "ranks 0 and 2 share GPU-5c1d on n1, ..." where towers share GPUs; empty where none does, and on CPUs. Collective,
/// of devices of one kind.
std::string shared_gpus(const Mpi& mpi, Device& device);

}  // namespace carillon
