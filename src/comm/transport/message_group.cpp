// A group by messages, each rank directly to each other one.
//
// reduce-scatter: every rank gets its slice from all others and sums the parts in rank order. all-gather: it sends its
// slice to all others. Together 2 (n-1)/n of the bytes pass each rank, the least possible. Both are under way once
// started. A broadcast is the root's affair alone: n-1 times its bytes, for what is small or rare.
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "src/comm/transport/direct_group.h"

namespace carillon {
namespace {

class MessageGroup final : public DirectGroup {
 public:
  using DirectGroup::DirectGroup;

  std::unique_ptr<Group> split(int color, int key) override {
    return std::make_unique<MessageGroup>(members().split(color, key), order());
  }
  std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) override {
    return std::make_unique<ReduceScatter>(*this, values);
  }
  std::unique_ptr<Pending> start_all_gather(std::span<float> values) override {
    return std::make_unique<AllGather>(*this, values);
  }

 private:
  /// In memory: what each sends for this rank's slice, [rank][slice].
  class ReduceScatter final : public Pending {
   public:
    ReduceScatter(MessageGroup& group, std::span<float> values)
        : group_(group),
          own_(group.slice(values, group.rank())),
          exchange_(group.members(), own_.size() * group.size(), group.spare_) {
      for (const int peer : group.peers()) exchange_.receive(incoming(peer), peer);
      for (const int peer : group.peers()) exchange_.send(group.slice(values, peer), peer);
    }
    void wait() override {
      exchange_.wait("a reduce-scatter");
      std::vector<const float*> parts(group_.size(), own_.data());
      for (const int peer : group_.peers()) parts[peer] = exchange_.part(incoming(peer)).data();
      sum_in_order(parts, own_.size(), 1.0f, own_.data(), group_.order());
    }

   private:
    Slice incoming(int peer) const { return {own_.size() * peer, own_.size() * (peer + 1)}; }

    MessageGroup& group_;
    std::span<float> own_;
    BufferedPointToPoint<float> exchange_;
  };

  /// In place.
  class AllGather final : public Pending {
   public:
    AllGather(MessageGroup& group, std::span<float> values) : exchange_(group.members()) {
      for (const int peer : group.peers()) exchange_.receive(std::as_writable_bytes(group.slice(values, peer)), peer);
      const std::span<float> own = group.slice(values, group.rank());
      for (const int peer : group.peers()) exchange_.send(std::as_bytes(own), peer);
    }
    void wait() override { exchange_.wait("an all-gather"); }

   private:
    PointToPoint exchange_;
  };

  SpareMemory<float> spare_;
};

}  // namespace

std::unique_ptr<Group> make_message_group(Members members, SumOrder order) {
  return std::make_unique<MessageGroup>(std::move(members), order);
}

}  // namespace carillon
