// A group by messages of half the bytes: what is sent is rounded to bfloat16, sums are taken in float32.
//
// reduce-scatter: a rank's own part is added as it is, the others' as they arrive, rounded. all-gather: the rank that
// has a slice takes the rounded values, too, so that all ranks hold the same. Otherwise as message_group.cpp.
#include <memory>
#include <vector>

#include "carillon/core/bf16.h"
#include "carillon/core/sum_in_order.h"
#include "src/comm/exchange.h"
#include "src/comm/groups.h"

namespace carillon {
namespace {

void round_to(std::span<Bf16> out, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_bf16(values[i]);
}

void widen_to(std::span<float> out, std::span<const Bf16> values) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_float(values[i]);
}

/// Memory for messages, kept from call to call.
struct Bf16Memory {
  std::unique_ptr<Bf16[]> values;
  std::size_t capacity = 0;
};
using SpareMemory = std::vector<Bf16Memory>;

/// Messages under way, and the memory that they are in: `spare`'s, or new.
class Bf16Exchange {
 public:
  Bf16Exchange(const Members& members, std::size_t count, SpareMemory& spare)
      : spare_(spare), memory_(take(spare, count)), exchange_(members) {}
  ~Bf16Exchange() {
    if (exchange_.over()) {
      spare_.push_back(std::move(memory_));
    } else {
      static_cast<void>(memory_.values.release());  // MPI may still write there: lost, as the run is
    }
  }
  Bf16Exchange(const Bf16Exchange&) = delete;
  Bf16Exchange& operator=(const Bf16Exchange&) = delete;

  std::span<Bf16> part(Slice of) { return {memory_.values.get() + of.begin, of.end - of.begin}; }
  void receive(Slice to, int from) { exchange_.receive(std::as_writable_bytes(part(to)), from); }
  void send(Slice of, int to) { exchange_.send(std::as_bytes(part(of)), to); }
  void wait(std::string_view operation) { exchange_.wait(operation); }

 private:
  static Bf16Memory take(SpareMemory& spare, std::size_t count) {
    Bf16Memory memory;
    if (!spare.empty()) {
      memory = std::move(spare.back());
      spare.pop_back();
    }
    if (memory.capacity < count) memory = {std::make_unique_for_overwrite<Bf16[]>(count), count};
    return memory;
  }

  SpareMemory& spare_;
  Bf16Memory memory_;
  Exchange exchange_;
};

class Bf16MessageGroup final : public Group {
 public:
  Bf16MessageGroup(Members members, SumOrder order) : members_(std::move(members)), order_(order) {}

  int rank() const override { return members_.rank(); }
  int size() const override { return members_.size(); }
  std::unique_ptr<Group> split(int color, int key) override {
    return std::make_unique<Bf16MessageGroup>(members_.split(color, key), order_);
  }
  /// As it is.
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
  /// In memory: the values, rounded, of which the others' slices are sent; behind them what each sends for this rank's.
  class ReduceScatter final : public Pending {
   public:
    ReduceScatter(Bf16MessageGroup& group, std::span<float> values)
        : group_(group),
          own_(group.slice(values, group.rank())),
          first_incoming_(values.size()),
          exchange_(group.members_, values.size() + own_.size() * group.size(), group.spare_) {
      for (const int peer : group.peers()) exchange_.receive(incoming(peer), peer);
      for (const int peer : group.peers()) {
        const Slice part = reduction_slice(values.size(), peer, group.size());
        round_to(exchange_.part(part), values.subspan(part.begin, part.end - part.begin));
        exchange_.send(part, peer);
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
      sum_in_order(parts, own_.size(), 1.0f, own_.data(), group_.order_);
    }

   private:
    Slice incoming(int peer) const {
      const std::size_t begin = first_incoming_ + own_.size() * peer;
      return {begin, begin + own_.size()};
    }

    Bf16MessageGroup& group_;
    std::span<float> own_;
    std::size_t first_incoming_;
    Bf16Exchange exchange_;
  };

  class AllGather final : public Pending {
   public:
    AllGather(Bf16MessageGroup& group, std::span<float> values)
        : group_(group), values_(values), exchange_(group.members_, values.size(), group.spare_) {
      for (const int peer : group.peers()) exchange_.receive(part_of(peer), peer);
      const std::span<Bf16> own = exchange_.part(part_of(group.rank()));
      round_to(own, group.slice(values, group.rank()));
      widen_to(group.slice(values, group.rank()), own);
      for (const int peer : group.peers()) exchange_.send(part_of(group.rank()), peer);
    }
    void wait() override {
      exchange_.wait("an all-gather");
      for (const int peer : group_.peers()) widen_to(group_.slice(values_, peer), exchange_.part(part_of(peer)));
    }

   private:
    Slice part_of(int rank) const { return reduction_slice(values_.size(), rank, group_.size()); }

    Bf16MessageGroup& group_;
    std::span<float> values_;
    Bf16Exchange exchange_;
  };

  std::span<float> slice(std::span<float> values, int rank) const { return slice_of(values, rank, size()); }
  std::vector<int> peers() const { return others_of(rank(), size()); }

  Members members_;
  SumOrder order_;
  SpareMemory spare_;
  std::vector<float> wide_;  ///< what a sum is taken of
};

}  // namespace

std::unique_ptr<Group> make_bf16_message_group(Members members, SumOrder order) {
  return std::make_unique<Bf16MessageGroup>(std::move(members), order);
}

}  // namespace carillon
