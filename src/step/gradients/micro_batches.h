// MicroBatches: the GradientSource that divides a rank's batch into micro-batches on a CPU. Each thread computes one
// micro-batch at a time. For a GPU see cuda_micro_batches.cu.
//
// Each micro-batch passes through the network as if it were a complete batch. Therefore its gradients, its loss and its
// running statistics depend neither on the rank nor on the thread count. (New running statistics are computed from the
// running statistics before the step.) One binary tree (core/reduction.h) sums gradients, losses and running statistics
// over the step's micro-batches. Each rank sums its own micro-batches, and the communicator sums over the ranks. The
// sum is divided once by the number of micro-batches. Therefore, if each rank has 2^k micro-batches, the same global
// batch gives the same bits at any number of ranks.
//
//   compute   each thread takes the next micro-batch until none is left: forward, step sums, backward, add to the sum
//   enqueue   compute; sum -> gradients and step sums, which include the buffers
//             (the update strategy averages over the ranks)
//   finish    averaged step sums -> buffers
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "carillon/device/device.h"
#include "src/step/gradients/gradient_source.h"

namespace carillon {

/// Sums flat arrays in the binary tree of core/reduction.h. The caller may add the arrays in any order.
///
/// If an array's neighbour is present, their sum moves up the tree. Otherwise the array waits for its neighbour.
/// Therefore the tree stores about (number of threads + number of tree levels) arrays.
class SumTree {
 public:
  /// Sums `leaves` arrays of `count` floats each. `device` is a CPU and outlives this object.
  SumTree(int leaves, std::size_t count, Device& device) : leaves_(leaves), count_(count), device_(device) {}

  /// Adds array number `leaf`. Each array is added once. Several threads may add arrays concurrently.
  void add(int leaf, std::span<const float> values);
  /// Writes factor * sum to `out`. Call it after all arrays have been added. Afterwards, a new sum may begin. Errors:
  /// failed (an array is missing).
  void finish(float factor, std::span<float> out);

 private:
  /// Block number `index` of 2^level leaves.
  struct Node {
    int level = 0, index = 0;
    auto operator<=>(const Node&) const = default;
    Node neighbour() const { return {level, index ^ 1}; }
    Node parent() const { return {level + 1, index / 2}; }
  };
  // The functions below require that the caller holds the mutex.
  /// Removes the array of `node` from the tree and returns it; returns an empty buffer if the array is not present.
  Buffer remove(Node node);
  Buffer spare_buffer();

  const int leaves_;
  const std::size_t count_;
  Device& device_;
  std::mutex mutex_;
  std::map<Node, Buffer> kept_;
  std::vector<Buffer> spare_;
};

/// How a global batch is divided into micro-batches.
struct MicroBatchForm {
  std::int64_t samples = 1;      ///< samples per micro-batch
  std::int64_t own_count = 1;    ///< micro-batches of this rank
  std::int64_t total_count = 1;  ///< micro-batches of all ranks

  /// Factor that multiplies the sum over the rank's micro-batches. If there is one rank, the factor turns the sum into
  /// a mean. If there are several ranks, the factor is 1, and the communicator divides.
  float own_factor() const { return own_count == total_count ? 1.0f / static_cast<float>(total_count) : 1.0f; }
};

/// Returns the number of step sums, including room for these buffers.
std::size_t step_sums_with(const std::vector<BufferSpec>& buffers);
/// Returns the part of the step sums that contains the buffers. It has the layout of BufferStore::values.
std::span<float> buffers_among(std::span<float> step_sums);
/// Checks that steps can average the buffers. Errors: failed (the step sums have no room for the buffers; a buffer has
/// AcrossRanks::first).
void check_can_average(const GradientSourceContext& context);

/// A buffer's averaged step sums, and the buffer's values.
struct BufferMeans {
  std::span<const float> from;
  std::span<float> to;
};
/// Returns the entries of all buffers that an op changes. Other buffers are omitted, because the mean of equal values
/// may round to another value.
std::vector<BufferMeans> buffer_means(const GradientSourceContext& context);

class MicroBatches final : public GradientSource {
 public:
  /// The batch size of `network` is the size of one micro-batch. The parameters have step_sums_with(buffers) step sums.
  /// Errors: failed (the device is a GPU; a buffer has AcrossRanks::first).
  MicroBatches(const GradientSourceContext& context, const MicroBatchForm& form, std::size_t image_bytes);
  ~MicroBatches() override;

  void enqueue(GradientSink& sink) override;
  void finish() override;
  void rebuild() override;
  bool averages_buffers() const override { return true; }
  std::size_t activation_bytes() const override;

 private:
  struct Lane;

  void compute();

  GradientSourceContext context_;
  MicroBatchForm form_;
  std::size_t image_bytes_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< one lane per thread
  SumTree sum_;
};

/// Makes a source that works like MicroBatches, but on a GPU. CUDA builds only (cuda_micro_batches.cu). Errors: failed
/// (a buffer has AcrossRanks::first).
std::unique_ptr<GradientSource> make_cuda_micro_batches(const GradientSourceContext& context,
                                                        const MicroBatchForm& form);

}  // namespace carillon
