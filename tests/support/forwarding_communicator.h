// The ranks' communicator, for tests that change a part of it.
#pragma once

#include <memory>

#include "src/comm/allreduce/communicator.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Device& device, WaitLimit limit = {})
      : ranks_(make_communicator(mpi_world(), device, "auto", limit)) {}
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
  SharedHostMemory* shared_host_memory() override { return ranks_->shared_host_memory(); }

 private:
  std::unique_ptr<Communicator> ranks_;
};

}  // namespace carillon::testing
