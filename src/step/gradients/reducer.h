// Reducer: averages gradients over the ranks, bucket by bucket, during the backward pass.
//
// The gradients at the front of the flat array (ParameterStore) are complete first. Therefore a bucket is a span of
// this array, and its all-reduce starts when the gradient of its last parameter is complete. The last bucket includes
// the step sums. If the communicator rounds gradients, the step sums are a separate bucket that is not rounded.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "carillon/graph/parameters.h"
#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// Returns the bucket size in bytes: `requested` or, if `requested` is 0, a default for the device. `hosts`: [ranks] as
/// Mpi::hosts; may be empty for one host. On GPUs, the default causes few large buckets, because each bucket needs
/// several kernel launches.
std::size_t bucket_bytes_on(DeviceKind device, std::size_t requested, std::span<const int> hosts = {});

/// Divides `layout` into buckets of at least `bucket_bytes` (the last one may be smaller). Returns the end of each
/// bucket, in elements. The last bucket includes the step sums.
std::vector<std::size_t> bucket_ends(const ParameterLayout& layout, std::size_t bucket_bytes,
                                     std::size_t sum_count = step_sum_count);

class Reducer {
 public:
  /// `communicator` and `parameters` outlive the reducer.
  Reducer(Communicator& communicator, const ParameterStore& parameters, std::size_t bucket_bytes);

  /// Enqueues the wait until gradients may be written. Call it before the step writes its first gradient.
  void begin(Stream& stream);
  /// Call it when the gradient of `parameter` is complete: once per parameter and step, in ParameterLayout::order().
  /// Errors: failed (the parameters come in another order).
  void add(int parameter, Stream& stream);
  /// Enqueues the wait for all buckets. Call it after the last `add`.
  void finalize(Stream& stream);

 private:
  void start_next(Stream& stream);

  Communicator& communicator_;
  const ParameterStore& parameters_;
  std::vector<std::size_t> ends_;
  std::size_t next_parameter_ = 0;  ///< an index into layout().order()
  std::size_t next_bucket_ = 0;
  bool sums_alone_;  ///< true: the last bucket consists of the step sums and is not rounded
};

}  // namespace carillon
