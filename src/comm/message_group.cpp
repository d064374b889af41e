// A group by messages, each rank directly to each other one.
//
// reduce-scatter: every rank gets its slice from all others and sums the parts in rank order. all-gather: it sends its
// slice to all others. Together 2 (n-1)/n of the bytes pass each rank, the least possible. Both are under way once
// started. A broadcast is the root's affair alone: n-1 times its bytes, for what is small or rare.
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "src/comm/exchange.h"
#include "src/comm/groups.h"

namespace carillon {
namespace {

/// Memory for parts that come in, kept from call to call.
struct Incoming {
  std::unique_ptr<float[]> floats;
  std::size_t capacity = 0;
};

class MessageGroup final : public Group {
 public:
  MessageGroup(Members members, SumOrder order) : members_(std::move(members)), order_(order) {}

  int rank() const override { return members_.rank(); }
  int size() const override { return members_.size(); }
  std::unique_ptr<Group> split(int color, int key) override {
    return std::make_unique<MessageGroup>(members_.split(color, key), order_);
  }
  void broadcast(std::span<float> values, int root) override {
    broadcast_bytes(members_, std::as_writable_bytes(values), root, "a broadcast");
  }
  std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) override {
    return std::make_unique<ReduceScatter>(*this, values);
  }
  std::unique_ptr<Pending> start_all_gather(std::span<float> values) override {
    return std::make_unique<AllGather>(*this, values);
  }

 private:
  class ReduceScatter final : public Pending {
   public:
    ReduceScatter(MessageGroup& group, std::span<float> values)
        : group_(group), own_(group.slice(values, group.rank())), exchange_(group.members_) {
      incoming_ = group.take_memory(own_.size() * group.size());
      for (const int peer : group.peers()) exchange_.receive(std::as_writable_bytes(part_of(peer)), peer);
      for (const int peer : group.peers()) exchange_.send(std::as_bytes(group.slice(values, peer)), peer);
    }
    ~ReduceScatter() override {
      if (exchange_.over()) {
        group_.spare_.push_back(std::move(incoming_));
      } else {
        static_cast<void>(incoming_.floats.release());  // MPI may still write there: lost, as the run is
      }
    }
    void wait() override {
      exchange_.wait("a reduce-scatter");
      std::vector<const float*> parts;
      for (int rank = 0; rank < group_.size(); ++rank) {
        parts.push_back(rank == group_.rank() ? own_.data() : part_of(rank).data());
      }
      sum_in_order(parts, own_.size(), 1.0f, own_.data(), group_.order_);
    }

   private:
    std::span<float> part_of(int peer) {
      return {incoming_.floats.get() + static_cast<std::size_t>(peer) * own_.size(), own_.size()};
    }

    MessageGroup& group_;
    std::span<float> own_;
    Incoming incoming_;  // [rank][own slice]
    Exchange exchange_;
  };

  class AllGather final : public Pending {
   public:
    AllGather(MessageGroup& group, std::span<float> values) : exchange_(group.members_) {
      for (const int peer : group.peers()) exchange_.receive(std::as_writable_bytes(group.slice(values, peer)), peer);
      const std::span<float> own = group.slice(values, group.rank());
      for (const int peer : group.peers()) exchange_.send(std::as_bytes(own), peer);
    }
    void wait() override { exchange_.wait("an all-gather"); }

   private:
    Exchange exchange_;
  };

  std::span<float> slice(std::span<float> values, int rank) const { return slice_of(values, rank, size()); }
  std::vector<int> peers() const { return others_of(rank(), size()); }
  Incoming take_memory(std::size_t count) {
    Incoming memory;
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
    }
    if (memory.capacity < count) memory = {std::make_unique_for_overwrite<float[]>(count), count};
    return memory;
  }

  Members members_;
  SumOrder order_;
  std::vector<Incoming> spare_;
};

}  // namespace

std::unique_ptr<Group> make_message_group(Members members, SumOrder order) {
  return std::make_unique<MessageGroup>(std::move(members), order);
}

}  // namespace carillon
