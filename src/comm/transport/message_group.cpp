// A group in which each rank sends messages directly to each other rank, in float32 or rounded to bfloat16.
//
// reduce-scatter: every rank receives its slice from all others and sums the parts in rank order. all-gather: every
// rank sends its slice to all others. In both operations together, each of the n ranks sends 2 (n-1)/n times the bytes
// of the array, which is the minimum. Both operations are asynchronous. In a broadcast, the root sends the array n-1
// times, so use broadcasts only for small or rare data.
//
// With bfloat16 messages, a rank computes sums in float32, and does not round the part that it adds itself. In the
// all-gather, the owner of a slice replaces its own values by the rounded values. Therefore all ranks have equal bits.
// Broadcasts are not rounded.
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "carillon/core/reduction.h"
#include "src/comm/mpi/members.h"
#include "src/comm/transport/group.h"
#include "src/core/bf16.h"

namespace carillon {
namespace {

void round_to(std::span<Bf16> out, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_bf16(values[i]);
}

void widen_to(std::span<float> out, std::span<const Bf16> values) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_float(values[i]);
}

/// Memory for messages of `Element`s. Later calls reuse the memory.
template <typename Element>
struct MessageMemory {
  std::unique_ptr<Element[]> elements;
  std::size_t capacity = 0;
};
template <typename Element>
using SpareMemory = std::vector<MessageMemory<Element>>;

/// Messages in flight and their memory. Takes the memory from `spare` if possible.
template <typename Element>
class BufferedPointToPoint {
 public:
  BufferedPointToPoint(const Members& members, std::size_t count, SpareMemory<Element>& spare)
      : spare_(spare), memory_(take(spare, count)), exchange_(members) {}
  ~BufferedPointToPoint() {
    if (exchange_.over()) {
      spare_.push_back(std::move(memory_));
    } else {
      static_cast<void>(memory_.elements.release());  // not freed, because MPI may still write there, and the run has
                                                      // failed anyway
    }
  }
  BufferedPointToPoint(const BufferedPointToPoint&) = delete;
  BufferedPointToPoint& operator=(const BufferedPointToPoint&) = delete;

  std::span<Element> part(Slice of) { return {memory_.elements.get() + of.begin, of.end - of.begin}; }
  void receive(Slice to, int from) { exchange_.receive(std::as_writable_bytes(part(to)), from); }
  void send(std::span<const Element> elements, int to) { exchange_.send(std::as_bytes(elements), to); }
  void wait(std::string_view operation) { exchange_.wait(operation); }

 private:
  static MessageMemory<Element> take(SpareMemory<Element>& spare, std::size_t count) {
    MessageMemory<Element> memory;
    if (!spare.empty()) {
      memory = std::move(spare.back());
      spare.pop_back();
    }
    if (memory.capacity < count) memory = {std::make_unique_for_overwrite<Element[]>(count), count};
    return memory;
  }

  SpareMemory<Element>& spare_;
  MessageMemory<Element> memory_;
  PointToPoint exchange_;
};

/// `Element`: element type of the messages, float or Bf16.
template <typename Element>
class MessageGroup final : public Group {
 public:
  MessageGroup(Members members, SumOrder order) : members_(std::move(members)), order_(order) {}

  int rank() const override { return members_.rank(); }
  int size() const override { return members_.size(); }

  void broadcast(std::span<float> values, int root) override {
    broadcast_bytes(members_, std::as_writable_bytes(values), root, "a broadcast");
  }
  std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) override {
    return std::make_unique<ReduceScatter>(*this, values);
  }
  std::unique_ptr<Pending> start_all_gather(std::span<float> values) override {
    if constexpr (rounds) {
      return std::make_unique<RoundedAllGather>(*this, values);
    } else {
      return std::make_unique<AllGather>(*this, values);
    }
  }

 private:
  static constexpr bool rounds = !std::is_same_v<Element, float>;

  std::span<float> slice(std::span<float> values, int rank) const {
    const Slice part = reduction_slice(values.size(), rank, size());
    return values.subspan(part.begin, part.end - part.begin);
  }
  /// Returns all other members in cyclic order from rank() + 1, so that each rank starts with a different peer.
  std::vector<int> peers() const {
    std::vector<int> others;
    for (int step = 1; step < size(); ++step) others.push_back((rank() + step) % size());
    return others;
  }

  /// A reduce-scatter in progress. If messages are rounded, its memory starts with [values.size()] outgoing elements.
  /// The [ranks][slice] incoming elements follow.
  class ReduceScatter final : public Pending {
   public:
    ReduceScatter(MessageGroup& group, std::span<float> values)
        : group_(group),
          own_(group.slice(values, group.rank())),
          first_incoming_(rounds ? values.size() : 0),
          exchange_(group.members_, first_incoming_ + own_.size() * group.size(), group.spare_) {
      for (const int peer : group.peers()) exchange_.receive(incoming(peer), peer);
      for (const int peer : group.peers()) exchange_.send(outgoing(values, peer), peer);
    }
    void wait() override {
      exchange_.wait("a reduce-scatter");
      std::vector<const float*> parts(group_.size(), own_.data());
      if constexpr (rounds) group_.wide_.resize(own_.size() * group_.size());
      for (const int peer : group_.peers()) parts[peer] = received(peer);
      sum_in_order(parts, own_.size(), 1.0f, own_.data(), group_.order_);
    }

   private:
    Slice incoming(int peer) const {
      const std::size_t begin = first_incoming_ + own_.size() * peer;
      return {begin, begin + own_.size()};
    }
    std::span<const Element> outgoing(std::span<float> values, int peer) {
      const std::span<float> part = group_.slice(values, peer);
      if constexpr (rounds) {
        const std::span<Bf16> rounded = exchange_.part(reduction_slice(values.size(), peer, group_.size()));
        round_to(rounded, part);
        return rounded;
      } else {
        return part;
      }
    }
    /// Returns the part of this rank's slice that `peer` sent, as float32.
    const float* received(int peer) {
      if constexpr (rounds) {
        const std::span<float> part(group_.wide_.data() + own_.size() * peer, own_.size());
        widen_to(part, exchange_.part(incoming(peer)));
        return part.data();
      } else {
        return exchange_.part(incoming(peer)).data();
      }
    }

    MessageGroup& group_;
    std::span<float> own_;
    std::size_t first_incoming_;
    BufferedPointToPoint<Element> exchange_;
  };

  /// An all-gather in progress. Received slices directly replace the other ranks' slices of `values`.
  class AllGather final : public Pending {
   public:
    AllGather(MessageGroup& group, std::span<float> values) : exchange_(group.members_) {
      for (const int peer : group.peers()) exchange_.receive(std::as_writable_bytes(group.slice(values, peer)), peer);
      const std::span<float> own = group.slice(values, group.rank());
      for (const int peer : group.peers()) exchange_.send(std::as_bytes(own), peer);
    }
    void wait() override { exchange_.wait("an all-gather"); }

   private:
    PointToPoint exchange_;
  };

  class RoundedAllGather final : public Pending {
   public:
    RoundedAllGather(MessageGroup& group, std::span<float> values)
        : group_(group), values_(values), exchange_(group.members_, values.size(), group.spare_) {
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

    MessageGroup& group_;
    std::span<float> values_;
    BufferedPointToPoint<Bf16> exchange_;
  };

  Members members_;
  SumOrder order_;
  SpareMemory<Element> spare_;
  std::vector<float> wide_;  ///< received parts as float32; used if messages are rounded
};

}  // namespace

std::unique_ptr<Group> make_message_group(Members members, SumOrder order, Wire wire) {
  if (wire == Wire::bf16) return std::make_unique<MessageGroup<Bf16>>(std::move(members), order);
  return std::make_unique<MessageGroup<float>>(std::move(members), order);
}

}  // namespace carillon
