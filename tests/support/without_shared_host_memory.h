// The ranks' communicator without shared host memory: it averages gradients, and every tower updates its own variables.
#pragma once

#include <memory>

#include "src/comm/allreduce/communicator.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {

class WithoutSharedHostMemory : public Communicator {
 public:
  explicit WithoutSharedHostMemory(Device& device) : ranks_(make_communicator(mpi_world(), device)) {}
  std::string_view name() const override { return ranks_->name(); }
  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  Buffer allocate(std::size_t bytes) override { return ranks_->allocate(bytes); }
  void acquire(Stream& stream) override { ranks_->acquire(stream); }
  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override {
    ranks_->start_allreduce_mean(bucket, stream);
  }
  void finish(Stream& stream) override { ranks_->finish(stream); }
  void broadcast(std::span<float> values, int root) override { ranks_->broadcast(values, root); }
  void mean(std::span<float> values) override { ranks_->mean(values); }
  void all_gather(std::span<float> values) override { ranks_->all_gather(values); }

 private:
  std::unique_ptr<Communicator> ranks_;
};

}  // namespace carillon::testing
