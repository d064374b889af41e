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
  void meet_after_update(const std::function<void(int rank)>& finish) override;
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::byte* on_rank(int rank, std::byte* own) const override;
  void means_of(std::span<const float> values, const TakeMeans& take) const override;
  void gather(std::span<float> values) const override;

 private:
  /// As on_rank.
  const float* peers_copy(int rank, const float* values) const { return own_->array(rank) + (values - own_->own()); }
  /// If no lower rank is alive: calls finish(rank) for each ended rank that has not arrived.
  void finish_for_ended(const std::function<void(int rank)>& finish);

  const Members& host_;
  const std::unique_ptr<SharedArrays>& own_;
  SumOrder order_;
  float factor_;
  std::unique_ptr<SharedArrays> shared_;  // rank 0 holds the array; `started`: number of meetings of a rank
  std::uint64_t meetings_ = 0;
};

}  // namespace carillon
