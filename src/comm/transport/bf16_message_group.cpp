// A group by messages of half the bytes: what is sent is rounded to bfloat16, sums are taken in float32.
//
// reduce-scatter: a rank's own part is added as it is, the others' as they arrive, rounded. all-gather: the rank that
// has a slice takes the rounded values, too, so that all ranks hold the same. Otherwise as message_group.cpp.
#include <vector>

#include "carillon/core/sum_in_order.h"
#include "src/comm/transport/direct_group.h"
#include "src/core/bf16.h"

namespace carillon {
namespace {

void round_to(std::span<Bf16> out, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_bf16(values[i]);
}

void widen_to(std::span<float> out, std::span<const Bf16> values) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_float(values[i]);
}

class Bf16MessageGroup final : public DirectGroup {
 public:
  using DirectGroup::DirectGroup;

  std::unique_ptr<Group> split(int color, int key) override {
    return std::make_unique<Bf16MessageGroup>(members().split(color, key), order());
  }
  std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) override {
    return std::make_unique<ReduceScatter>(*this, values);
  }
  std::unique_ptr<Pending> start_all_gather(std::span<float> values) override {
    return std::make_unique<AllGather>(*this, values);
  }

 private:
  /// In memory: the values, rounded, of which the others' slices are sent; behind them what each sends for this rank's.
  class ReduceScatter final : public Pending {
   public:
    ReduceScatter(Bf16MessageGroup& group, std::span<float> values)
        : group_(group),
          own_(group.slice(values, group.rank())),
          first_incoming_(values.size()),
          exchange_(group.members(), values.size() + own_.size() * group.size(), group.spare_) {
      for (const int peer : group.peers()) exchange_.receive(incoming(peer), peer);
      for (const int peer : group.peers()) {
        const std::span<Bf16> rounded = exchange_.part(reduction_slice(values.size(), peer, group.size()));
        round_to(rounded, group.slice(values, peer));
        exchange_.send(rounded, peer);
      }
    }
    void wait() override {
      exchange_.wait("a reduce-scatter");
      std::vector<float>& wide = group_.wide_;
      wide.resize(own_.size() * group_.size());
      std::vector<const float*> parts(group_.size(), own_.data());
      for (const int peer : group_.peers()) {
        const std::span<float> part(wide.data() + own_.size() * peer, own_.size());
        widen_to(part, exchange_.part(incoming(peer)));
        parts[peer] = part.data();
      }
      sum_in_order(parts, own_.size(), 1.0f, own_.data(), group_.order());
    }

   private:
    Slice incoming(int peer) const {
      const std::size_t begin = first_incoming_ + own_.size() * peer;
      return {begin, begin + own_.size()};
    }

    Bf16MessageGroup& group_;
    std::span<float> own_;
    std::size_t first_incoming_;
    BufferedPointToPoint<Bf16> exchange_;
  };

  class AllGather final : public Pending {
   public:
    AllGather(Bf16MessageGroup& group, std::span<float> values)
        : group_(group), values_(values), exchange_(group.members(), values.size(), group.spare_) {
      for (const int peer : group.peers()) exchange_.receive(part_of(peer), peer);
      const std::span<Bf16> own = exchange_.part(part_of(group.rank()));
      round_to(own, group.slice(values, group.rank()));
      widen_to(group.slice(values, group.rank()), own);
      for (const int peer : group.peers()) exchange_.send(own, peer);
    }
    void wait() override {
      exchange_.wait("an all-gather");
      for (const int peer : group_.peers()) widen_to(group_.slice(values_, peer), exchange_.part(part_of(peer)));
    }

   private:
    Slice part_of(int rank) const { return reduction_slice(values_.size(), rank, group_.size()); }

    Bf16MessageGroup& group_;
    std::span<float> values_;
    BufferedPointToPoint<Bf16> exchange_;
  };

  SpareMemory<Bf16> spare_;
  std::vector<float> wide_;  ///< what a sum is taken of
};

}  // namespace

std::unique_ptr<Group> make_bf16_message_group(Members members, SumOrder order) {
  return std::make_unique<Bf16MessageGroup>(std::move(members), order);
}

}  // namespace carillon
