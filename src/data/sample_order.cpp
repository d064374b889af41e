#include "carillon/data/sample_order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"

namespace carillon {
namespace {

/// Uniform draws of one epoch's shuffle.
class ShuffleDraws {
 public:
  ShuffleDraws(std::uint64_t seed, std::uint64_t epoch) : seed_(seed), epoch_(epoch) {}

  /// Uniform in [0, bound), without bias (Lemire, "Fast random integer generation in an interval", 2019).
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{word()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t surplus = (0u - bound) % bound;  // 2^32 mod bound: this many products are drawn again
      while (static_cast<std::uint32_t>(product) < surplus) product = std::uint64_t{word()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint32_t word() {
    if (used_ == 4) {
      draws_ = philox4x32(seed_, philox_counter(RandomPurpose::sample_order, epoch_, block_++));
      used_ = 0;
    }
    return draws_.word[used_++];
  }

  std::uint64_t seed_, epoch_;
  std::uint32_t block_ = 0;
  Philox4x32 draws_{};
  int used_ = 4;
};

}  // namespace

SampleOrder::SampleOrder(std::uint64_t record_count, std::uint64_t seed, bool shuffle)
    : record_count_(record_count), seed_(seed), shuffle_(shuffle), epochs_{} {
  check(record_count >= 1 && record_count <= std::numeric_limits<std::uint32_t>::max(),
        "a sample order is of 1 to 2^32 - 1 records");
}

std::uint64_t SampleOrder::record_at(std::uint64_t position) {
  const std::uint64_t slot = position % record_count_;
  return shuffle_ ? epoch(position / record_count_).permutation[slot] : slot;
}

/// The epoch's permutation; epochs_[0] is the one used last, epochs_[1] the one before.
const SampleOrder::Epoch& SampleOrder::epoch(std::uint64_t number) {
  auto& [last, other] = epochs_;
  if (last.number == number && !last.permutation.empty()) return last;
  std::swap(last, other);
  if (last.number == number && !last.permutation.empty()) return last;

  last.number = number;
  last.permutation.resize(record_count_);
  std::iota(last.permutation.begin(), last.permutation.end(), 0u);
  ShuffleDraws draws(seed_, number);
  for (auto left = static_cast<std::uint32_t>(record_count_); left > 1; --left)
    std::swap(last.permutation[left - 1], last.permutation[draws.below(left)]);
  return last;
}

}  // namespace carillon
