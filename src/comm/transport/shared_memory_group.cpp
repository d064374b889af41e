// A group of the ranks of one host. The ranks exchange values through memory that all of them map.
//
// Values pass through the memory in pieces. A rank copies its part of a piece into the memory and increments `started`.
// The other ranks read this part, and every rank then increments `copied`. A rank overwrites its part only after all
// ranks have incremented `copied`. Each call is synchronous.
#include <algorithm>
#include <vector>

#include "carillon/core/reduction.h"
#include "src/comm/transport/group.h"
#include "src/comm/transport/shared_memory.h"

namespace carillon {
namespace {

using Progress = SharedArrays::Progress;
constexpr std::size_t piece_floats = std::size_t{1} << 16;

/// An operation that has already finished.
class NothingPending final : public Group::Pending {
  void wait() override {}
};

class SharedMemoryGroup final : public Group {
 public:
  explicit SharedMemoryGroup(Members members)
      : members_(std::move(members)), arrays_(members_, piece_floats * sizeof(float)) {}

  int rank() const override { return members_.rank(); }
  int size() const override { return members_.size(); }

  void broadcast(std::span<float> values, int root) override {
    in_pieces(values, "a broadcast", [&](Slice piece) {
      if (rank() == root) copy_in(values, piece, piece);
      put_done();
      if (rank() != root) copy_out(values, piece, piece, root, "a broadcast");
    });
  }

  std::unique_ptr<Pending> start_reduce_scatter(std::span<float> values) override {
    const Slice own = reduction_slice(values.size(), rank(), size());
    in_pieces(values, "a reduce-scatter", [&](Slice piece) {
      copy_in(values, piece, piece);
      put_done();
      const Slice part = common(piece, own);
      if (part.begin == part.end) return;
      arrays_.wait_for_all(&Progress::started, pieces_ + 1, "a reduce-scatter");
      std::vector<const float*> parts;
      for (int peer = 0; peer < size(); ++peer) parts.push_back(arrays_.array(peer) + (part.begin - piece.begin));
      sum_in_order(parts, part.end - part.begin, 1.0f, values.data() + part.begin);
    });
    return std::make_unique<NothingPending>();
  }

  std::unique_ptr<Pending> start_all_gather(std::span<float> values) override {
    in_pieces(values, "an all-gather", [&](Slice piece) {
      copy_in(values, piece, common(piece, reduction_slice(values.size(), rank(), size())));
      put_done();
      for (int step = 1; step < size(); ++step) {
        const int peer = (rank() + step) % size();
        copy_out(values, piece, common(piece, reduction_slice(values.size(), peer, size())), peer, "an all-gather");
      }
    });
    return std::make_unique<NothingPending>();
  }

 private:
  static Slice common(Slice a, Slice b) {
    const std::size_t begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
  }

  /// Calls pass(piece) for each piece of `values` as soon as the memory may be overwritten.
  template <typename Pass>
  void in_pieces(std::span<float> values, std::string_view operation, const Pass& pass) {
    for (std::size_t begin = 0; begin < values.size(); begin += piece_floats) {
      arrays_.wait_for_all(&Progress::copied, pieces_, operation);
      pass(Slice{begin, std::min(begin + piece_floats, values.size())});
      arrays_.reach(&Progress::copied, ++pieces_);
    }
  }
  void put_done() { arrays_.reach(&Progress::started, pieces_ + 1); }

  void copy_in(std::span<const float> values, Slice piece, Slice part) {
    std::copy(values.begin() + part.begin, values.begin() + part.end, arrays_.own() + (part.begin - piece.begin));
  }
  void copy_out(std::span<float> values, Slice piece, Slice part, int peer, std::string_view operation) {
    if (part.begin == part.end) return;
    arrays_.wait(&Progress::started, peer, pieces_ + 1, operation);
    const float* from = arrays_.array(peer) + (part.begin - piece.begin);
    std::copy(from, from + (part.end - part.begin), values.begin() + part.begin);
  }

  Members members_;
  SharedArrays arrays_;
  std::uint64_t pieces_ = 0;  // number of finished pieces
};

}  // namespace

std::unique_ptr<Group> make_shared_memory_group(Members members) {
  return std::make_unique<SharedMemoryGroup>(std::move(members));
}

}  // namespace carillon
