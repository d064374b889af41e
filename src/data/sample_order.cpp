#include "carillon/data/sample_order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"

namespace carillon {
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
  PhiloxDraws draws(seed_, RandomPurpose::sample_order, number);
  for (auto left = static_cast<std::uint32_t>(record_count_); left > 1; --left)
    std::swap(last.permutation[left - 1], last.permutation[draws.below(left)]);
  return last;
}

}  // namespace carillon
