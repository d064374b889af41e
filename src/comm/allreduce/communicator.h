// Communicator: all-reduce, broadcast and all-gather of float arrays between ranks.
// Control messages (options, errors, counts) use Mpi instead.
//
// Summation order. Every element is summed in rank order 0, 1, ..., n-1, independent of bucket sizes, so equal runs
// give equal bits. With several hosts, each host first sums the values of its own ranks in rank order. Then the sums of
// the hosts are added, in the order of the hosts' lowest ranks. With SumOrder::tree the sum is a binary tree over the
// ranks (core/reduction.h). NCCL chooses its own order. But with NCCL, too, all ranks get equal bits, and repeated runs
// on the same GPUs get equal bits.
//
// In each step, call acquire() and write the gradients. Call start_allreduce_mean() for each bucket as soon as the
// bucket is complete, in the same order on all ranks. Then call finish() and read the means. Errors: lost_rank if a
// peer or link is lost or a wait exceeds its WaitLimit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "carillon/core/reduction.h"
#include "carillon/device/device.h"
#include "src/comm/allreduce/shared_host_memory.h"
#include "src/comm/mpi/mpi.h"

namespace carillon {

/// Destruction is collective, except during exception unwinding.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// "self", "mpi shared memory" (one host), "mpi" (several hosts), "nccl". If gradients are rounded (rounds()), ",
  /// bf16" is appended. If GPU data goes through host memory, ", staged" is appended.
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Allocates zeroed device memory for the arrays that are averaged, aligned to tensor_alignment_bytes. Collective;
  /// call once. The buffer must be destroyed before the communicator.
  virtual Buffer allocate(std::size_t bytes) = 0;

  /// Allocates the memory that start_allreduce_mean() needs for buckets of up to `largest_bucket` elements. Collective;
  /// call once, before the first bucket.
  virtual void prepare(std::size_t /*largest_bucket*/) {}

  /// Enqueues a wait until all peers have read the values of the previous step. After this wait, the rank may write to
  /// the allocated memory again.
  virtual void acquire(Stream& stream) = 0;

  /// Enqueues the averaging of `bucket` over all ranks. The result, multiplied by result_scale(), is the mean. `bucket`
  /// is part of the memory from allocate(), and is not larger than the argument of prepare().
  virtual void start_allreduce_mean(std::span<float> bucket, Stream& stream) = 0;

  /// Factor that turns the result of start_allreduce_mean() into a mean: 1, or 1 / size() if the backend returns sums.
  /// The optimiser applies the factor in its update pass.
  virtual float result_scale() const { return 1.0f; }

  /// Does the same as start_allreduce_mean(), but never rounds to the wire format. The caller averages the loss and the
  /// control flags with this function.
  virtual void start_exact_allreduce_mean(std::span<float> bucket, Stream& stream) {
    start_allreduce_mean(bucket, stream);
  }

  /// True if start_allreduce_mean() rounds to the wire format.
  virtual bool rounds() const { return false; }

  /// Enqueues a wait for all averages that were started.
  virtual void finish(Stream& stream) = 0;

  /// Copies root's values to all ranks. Collective and blocking. Not allowed between acquire() and finish().
  virtual void broadcast(std::span<float> values, int root) = 0;

  /// Replaces the values by their mean over the ranks. Use it for small arrays, such as running statistics. `values`
  /// may be anywhere in device memory. Collective and blocking. Not allowed between acquire() and finish().
  virtual void mean(std::span<float> values) = 0;

  /// Enqueues a copy of every rank's slice of `values` (reduction_slice) to all ranks. `values` may be anywhere in
  /// device memory. Collective; also allowed between acquire() and finish(). On a CPU the call blocks. On a GPU all
  /// slices must have equal lengths. The copies are bitwise, so the values may be any bits.
  virtual void all_gather(std::span<float> values, Stream& stream);

  /// Returns the memory that the ranks share. The result is null on GPUs and if there are several hosts. The memory
  /// lives as long as the communicator. A step that averages through this memory needs neither acquire() nor finish().
  virtual SharedHostMemory* shared_host_memory() { return nullptr; }

  /// True if acquire(), start_allreduce_mean(), all_gather() and finish() may be captured in a CUDA graph. The host
  /// code of these functions then runs only once, at the capture. Such graphs must be destroyed before the
  /// communicator.
  virtual bool capturable() const { return false; }

  /// Throws lost_rank if a peer is known to be lost. The main thread calls this function repeatedly while it waits for
  /// a device. If this function throws, enqueued work may be incomplete, and the results of this work are undefined.
  virtual void check_peers() {}
};

/// How start_allreduce_mean() and SharedHostMemory::means_of compute means of several ranks. Communicator::mean()
/// ignores this struct: it always divides by the number of ranks. Within a host, it sums in the order of the ranks;
/// NCCL chooses its own order.
struct Averaging {
  SumOrder order = SumOrder::sequential;
  std::int64_t divisor = 0;  ///< divides the sum over the ranks; 0: the number of ranks
  Wire wire = Wire::fp32;
};

/// True if summing the ranks of each host as a tree, and then the hosts as a tree, has the same result as one tree over
/// all ranks. Requires that each host has 2^k consecutive ranks; the last host may have fewer. `hosts`: [ranks], as
/// Mpi::hosts.
bool sums_as_one_tree(std::span<const int> hosts);

/// Makes the communicator for these ranks and devices. `choice`: auto, nccl or mpi. Collective.
///   one rank: self; NCCL if `choice` is nccl
///   CPUs: shared memory within a host, messages between hosts
///   GPUs: NCCL if each rank has its own GPU and `choice` is not mpi; otherwise staged copies in host memory
/// Errors: no_device (the choice is nccl, but not every rank has its own GPU; some ranks are on CPUs and others on
/// GPUs).
std::unique_ptr<Communicator> make_communicator(const Mpi& mpi, Device& device, std::string_view choice = "auto",
                                                WaitLimit limit = {}, Averaging averaging = {});

/// Returns "ranks 0 and 2 share GPU-5c1d on n1, ..." if ranks share GPUs. Otherwise, and on CPUs, returns an empty
/// text. Collective; all devices are of one kind.
std::string shared_gpus(const Mpi& mpi, Device& device);

}  // namespace carillon
