// A Communicator and a SharedHostMemory that forward every call to another object. Tests override some of the
// functions.
#pragma once

#include <memory>

#include "src/comm/allreduce/communicator.h"
#include "src/comm/allreduce/shared_host_memory.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {

class ForwardingMemory : public SharedHostMemory {
 public:
  /// `memory` must outlive this object.
  explicit ForwardingMemory(SharedHostMemory& memory) : memory_(memory) {}
  Buffer allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void meet() override { memory_.meet(); }
  void meet_after_update(const std::function<void(int rank)>& finish) override { memory_.meet_after_update(finish); }
  int rank() const override { return memory_.rank(); }
  int size() const override { return memory_.size(); }
  std::byte* on_rank(int rank, std::byte* own) const override { return memory_.on_rank(rank, own); }
  void means_of(std::span<const float> values, const TakeMeans& take) const override { memory_.means_of(values, take); }
  void gather(std::span<float> values) const override { memory_.gather(values); }

 private:
  SharedHostMemory& memory_;
};

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Device& device, WaitLimit limit = {}, Averaging averaging = {})
      : ranks_(make_communicator(mpi_world(), device, "auto", limit, averaging)) {}
  std::string_view name() const override { return ranks_->name(); }
  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  Buffer allocate(std::size_t bytes) override { return ranks_->allocate(bytes); }
  void prepare(std::size_t largest_bucket) override { ranks_->prepare(largest_bucket); }
  void acquire(Stream& stream) override { ranks_->acquire(stream); }
  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override {
    ranks_->start_allreduce_mean(bucket, stream);
  }
  void finish(Stream& stream) override { ranks_->finish(stream); }
  void broadcast(std::span<float> values, int root) override { ranks_->broadcast(values, root); }
  void mean(std::span<float> values) override { ranks_->mean(values); }
  void all_gather(std::span<float> values, Stream& stream) override { ranks_->all_gather(values, stream); }
  SharedHostMemory* shared_host_memory() override { return ranks_->shared_host_memory(); }

 private:
  std::unique_ptr<Communicator> ranks_;
};

}  // namespace carillon::testing
