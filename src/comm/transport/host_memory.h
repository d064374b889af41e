// HostMemory: the SharedHostMemory of the ranks of one host, in shared memory with one counter per rank.
#pragma once

#include <memory>

#include "carillon/core/sum_in_order.h"
#include "src/comm/allreduce/shared_host_memory.h"
#include "src/comm/transport/shared_arrays.h"

namespace carillon {

class HostMemory final : public SharedHostMemory {
 public:
  /// `host`: all ranks of the run. `own`: the communicator's arrays, null until they are allocated. Both outlive this.
  /// `factor` multiplies the sums.
  HostMemory(const Members& host, const std::unique_ptr<SharedArrays>& own, SumOrder order, float factor)
      : host_(host), own_(own), order_(order), factor_(factor) {}

  Buffer allocate(std::size_t bytes) override;
  void meet() override;
  Slice shard(std::size_t count) const override { return reduction_slice(count, host_.rank(), host_.size()); }
  void means_of(std::span<const float> values, const TakeMeans& take) const override;
  void gather(std::span<float> values) const override;

 private:
  /// The address on `rank` that corresponds to `values` on this rank.
  const float* peers_copy(int rank, const float* values) const { return own_->array(rank) + (values - own_->own()); }

  const Members& host_;
  const std::unique_ptr<SharedArrays>& own_;
  SumOrder order_;
  float factor_;
  std::unique_ptr<SharedArrays> shared_;  // rank 0 holds the array; `started`: number of meetings of a rank
  std::uint64_t meetings_ = 0;
};

}  // namespace carillon
