// Averages by messages: every rank gets its slice of the bucket from all ranks, sums it in rank order, and sends the
// mean to all. The first exchange starts with the bucket and goes on beside the backward pass; 2 (n-1)/n of the
// bucket's bytes pass each rank, the least possible.
#include <vector>

#include "src/comm/communicators.h"

namespace carillon {
namespace {

class MessageCommunicator final : public Communicator {
 public:
  explicit MessageCommunicator(Device& device) : device_(device) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  }
  ~MessageCommunicator() override { MPI_Comm_free(&comm_); }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Buffer allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void acquire(Stream& /*stream*/) override {}

  void start_mean(std::span<float> bucket, Stream& /*stream*/) override {
    if (started_ == exchanges_.size()) exchanges_.emplace_back();
    Exchange& exchange = exchanges_[started_++];
    exchange.bucket = bucket;
    exchange.counts.clear();
    exchange.offsets.clear();
    for (int rank = 0; rank < size_; ++rank) {
      const Slice slice = reduction_slice(bucket.size(), rank, size_);
      exchange.offsets.push_back(static_cast<int>(slice.begin));
      exchange.counts.push_back(static_cast<int>(slice.end - slice.begin));
    }
    const int mine = exchange.counts[rank_];
    exchange.incoming.resize(static_cast<std::size_t>(mine) * size_);
    exchange.incoming_counts.assign(size_, mine);
    exchange.incoming_offsets.clear();
    for (int rank = 0; rank < size_; ++rank) exchange.incoming_offsets.push_back(rank * mine);
    check_mpi(MPI_Ialltoallv(bucket.data(), exchange.counts.data(), exchange.offsets.data(), MPI_FLOAT,
                             exchange.incoming.data(), exchange.incoming_counts.data(),
                             exchange.incoming_offsets.data(), MPI_FLOAT, comm_, &exchange.request),
              "MPI_Ialltoallv");
  }

  void finish(Stream& /*stream*/) override {
    for (std::size_t i = 0; i < started_; ++i) reduce_and_return(exchanges_[i]);
    for (std::size_t i = 0; i < started_; ++i) {
      check_mpi(MPI_Wait(&exchanges_[i].request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    started_ = 0;
  }

  void broadcast(std::span<float> values, int root) override {
    check_mpi(MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_FLOAT, root, comm_), "MPI_Bcast");
  }

  void check_peers() override { progress_mpi(); }

 private:
  struct Exchange {
    std::span<float> bucket;
    std::vector<int> counts, offsets;  ///< of every rank's slice in the bucket
    std::vector<float> incoming;       ///< [rank][my slice]
    std::vector<int> incoming_counts, incoming_offsets;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void reduce_and_return(Exchange& exchange) {
    check_mpi(MPI_Wait(&exchange.request, MPI_STATUS_IGNORE), "MPI_Wait");
    std::vector<const float*> parts;
    for (const int offset : exchange.incoming_offsets) parts.push_back(exchange.incoming.data() + offset);
    float* mean = exchange.bucket.data() + exchange.offsets[rank_];
    mean_in_rank_order(parts, static_cast<std::size_t>(exchange.counts[rank_]), 1.0f / static_cast<float>(size_), mean);
    check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, exchange.bucket.data(), exchange.counts.data(),
                              exchange.offsets.data(), MPI_FLOAT, comm_, &exchange.request),
              "MPI_Iallgatherv");
  }

  Device& device_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<Exchange> exchanges_;  // one per bucket of a step, kept from step to step
  std::size_t started_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_message_communicator(Device& device) {
  return std::make_unique<MessageCommunicator>(device);
}

}  // namespace carillon
