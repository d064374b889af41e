#include "src/data/loading/balanced_order.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"
#include "src/data/loading/permutation.h"

namespace carillon {

BalancedOrder::BalancedOrder(std::shared_ptr<const RecordGroups> groups, std::uint64_t seed, bool shuffle)
    : groups_(std::move(groups)), seed_(seed), shuffle_(shuffle) {
  const auto has_records = [](const std::vector<std::uint32_t>& records) { return !records.empty(); };
  check(!groups_->empty() && std::ranges::all_of(*groups_, has_records),
        "a balanced order requires groups, and a record in each of them");
  passes_.resize(groups_->size());
}

std::uint32_t BalancedOrder::record_at(std::uint64_t position) {
  const std::uint64_t block = position / groups_->size();
  const std::uint32_t group = group_at(position);
  const std::vector<std::uint32_t>& records = (*groups_)[group];
  const std::uint64_t pass = block / records.size(), slot = block % records.size();
  if (!shuffle_ || records.size() == 1) return records[slot];
  Permutation& permuted = passes_[group];
  if (permuted.values.empty() || permuted.number != pass) {
    PhiloxDraws draws(seed_, RandomPurpose::group_records, pass * groups_->size() + group);
    permuted = {pass, first_numbers(records.size())};
    carillon::shuffle(permuted.values, draws);
  }
  return records[permuted.values[slot]];
}

std::uint32_t BalancedOrder::group_at(std::uint64_t position) {
  const std::uint64_t count = groups_->size(), number = position / count, slot = position % count;
  if (!shuffle_) return static_cast<std::uint32_t>(slot);
  if (block_.values.empty() || block_.number != number) {
    PhiloxDraws draws(seed_, RandomPurpose::group_order, number);
    block_ = {number, first_numbers(count)};
    carillon::shuffle(block_.values, draws);
  }
  return block_.values[slot];
}

}  // namespace carillon
