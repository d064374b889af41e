// Reducer: averages the gradients over the towers, bucket by bucket, while backward goes on.
//
// Gradients become complete from front to back of the flat array (see ParameterStore), so a bucket is a span that
// closes when the last parameter in it is complete. The last bucket takes the step sums along, but where the
// communicator rounds: they then are a bucket of their own, which is not.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "carillon/graph/parameters.h"
#include "src/comm/allreduce/communicator.h"

namespace carillon {

/// `asked`, or, where that is 0, what suits the device: on a GPU buckets are on their way earlier.
std::size_t bucket_bytes_on(DeviceKind device, std::size_t asked);

/// Cuts `layout` into buckets of at least `bucket_bytes` (the last may be smaller): the end, in elements, of each, the
/// step sums belonging to the last one.
std::vector<std::size_t> bucket_ends(const ParameterLayout& layout, std::size_t bucket_bytes,
                                     std::size_t sum_count = step_sum_count);

class Reducer {
 public:
  /// `communicator` and `parameters` outlive the reducer.
  Reducer(Communicator& communicator, const ParameterStore& parameters, std::size_t bucket_bytes);

  /// Before the first gradient of a step is written.
  void begin(Stream& stream);
  /// `parameter`'s gradient is complete. Every parameter once a step, in the layout's order. Errors: failed otherwise.
  void add(int parameter, Stream& stream);
  /// After all are added: returns with every mean enqueued.
  void finalize(Stream& stream);

 private:
  void start_next(Stream& stream);

  Communicator& communicator_;
  const ParameterStore& parameters_;
  std::vector<std::size_t> ends_;
  std::size_t next_parameter_ = 0;  ///< index into layout().order()
  std::size_t next_bucket_ = 0;
  bool sums_alone_;  ///< the last bucket is the step sums, and exact
};

}  // namespace carillon
