#include "src/data/loading/sample_order.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"

namespace carillon {
namespace {

/// Fisher-Yates shuffle, from the last element to the first.
void shuffle(std::span<std::uint32_t> numbers, PhiloxDraws& draws) {
  for (auto left = static_cast<std::uint32_t>(numbers.size()); left > 1; --left)
    std::swap(numbers[left - 1], numbers[draws.below(left)]);
}

/// Returns 0, 1, ..., count - 1.
std::vector<std::uint32_t> first_numbers(std::uint64_t count) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

}  // namespace

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

namespace {

using Numbers = std::vector<std::uint32_t>;

/// Puts runs of neighbouring numbers in random order, and then shuffles each group of `window` numbers.
Numbers shuffled_in_windows(std::uint64_t count, std::uint64_t window, PhiloxDraws& draws) {
  constexpr std::uint64_t runs_in_a_window = 16;
  const std::uint64_t length = std::max<std::uint64_t>(window / runs_in_a_window, 1);
  Numbers runs = first_numbers((count + length - 1) / length);
  shuffle(runs, draws);
  Numbers numbers;
  numbers.reserve(count);
  for (const std::uint64_t run : runs) {
    for (std::uint64_t i = run * length; i < std::min((run + 1) * length, count); ++i)
      numbers.push_back(static_cast<std::uint32_t>(i));
  }
  for (std::uint64_t begin = 0; begin < count; begin += window)
    shuffle(std::span(numbers).subspan(begin, std::min(window, count - begin)), draws);
  return numbers;
}

/// Returns the permutation of an epoch of `count` records.
Numbers permutation_of(std::uint64_t count, const OrderSettings& settings, std::uint64_t key) {
  PhiloxDraws draws(settings.seed, RandomPurpose::sample_order, key);
  if (settings.window > 0) return shuffled_in_windows(count, settings.window, draws);
  Numbers numbers = first_numbers(count);
  shuffle(numbers, draws);
  return numbers;
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t record_count, OrderSettings settings)
    : record_count_(record_count), settings_(std::move(settings)), epochs_{} {
  check(record_count >= 1 && record_count <= std::numeric_limits<std::uint32_t>::max(),
        "a sample order requires 1 to 2^32 - 1 records");
  if (settings_.shares.empty()) settings_.shares = {0};
  check(settings_.shares.size() == 1 || settings_.tower_batch > 0, "shares require tower_batch > 0");
  for (std::uint64_t share = 0; share < settings_.shares.size(); ++share)
    check(count_of(share) >= 1 && count_of(share) <= record_count, "each share requires at least one record");
  if (!settings_.groups) return;
  check(settings_.shares.size() == 1 && settings_.window == 0, "groups of records need neither shares nor windows");
  balanced_.emplace(settings_.groups, settings_.seed, settings_.shuffle);
}

SampleOrder::Place SampleOrder::place_of(std::uint64_t position) const {
  const std::uint64_t towers = settings_.shares.size(), batch = settings_.tower_batch;
  if (towers == 1) return {0, position, std::numeric_limits<std::uint64_t>::max()};
  const std::uint64_t global_batch = batch * towers, first = settings_.origin % global_batch;
  check(position >= first, "the stream position is before the order's origin");
  const std::uint64_t step = (position - first) / global_batch, within = (position - first) % global_batch;
  return {within / batch, step * batch + within % batch, batch - within % batch};
}

std::uint64_t SampleOrder::count_of(std::uint64_t share) const {
  const std::vector<std::uint64_t>& shares = settings_.shares;
  return (share + 1 < shares.size() ? shares[share + 1] : record_count_) - shares[share];
}

std::uint64_t SampleOrder::record_at(std::uint64_t position) { return record_of(place_of(position)); }

std::uint64_t SampleOrder::record_of(const Place& place) {
  std::uint32_t record = 0;
  fill_run(place, {&record, 1});
  return record;
}

void SampleOrder::records_at(std::uint64_t position, std::span<std::uint32_t> records) {
  for (std::size_t done = 0; done < records.size();) done += fill_run(place_of(position + done), records.subspan(done));
}

std::size_t SampleOrder::fill_run(const Place& place, std::span<std::uint32_t> records) {
  if (balanced_) {
    for (std::size_t i = 0; i < records.size(); ++i) records[i] = balanced_->record_at(place.sample + i);
    return records.size();
  }
  const std::uint64_t count = count_of(place.share), slot = place.sample % count, number = place.sample / count;
  const std::size_t length = std::min({static_cast<std::uint64_t>(records.size()), place.run, count - slot});
  const std::span<std::uint32_t> run = records.first(length);
  const auto first = static_cast<std::uint32_t>(settings_.shares[place.share]);
  if (!settings_.shuffle) {
    std::iota(run.begin(), run.end(), first + static_cast<std::uint32_t>(slot));
    return length;
  }
  if (slot + length > count / 2) prepare(place.share, number + 1);
  const std::uint32_t* const permuted = epoch(place.share, number).permutation.data() + slot;
  for (std::size_t i = 0; i < length; ++i) run[i] = first + permuted[i];
  return length;
}

SampleOrder::Window SampleOrder::window_at(std::uint64_t position) const {
  const Place place = place_of(position);
  return window_of(place.share, place.sample);
}

SampleOrder::Window SampleOrder::window_of(std::uint64_t share, std::uint64_t sample) const {
  const std::uint64_t count = count_of(share), slot = sample % count, epoch_begin = sample - slot;
  const std::uint64_t begin = slot / settings_.window * settings_.window;
  return {share, epoch_begin + begin, epoch_begin + std::min(begin + settings_.window, count)};
}

std::vector<std::uint32_t> SampleOrder::records_in(const Window& window) {
  std::vector<std::uint32_t> records;
  for (std::uint64_t sample = window.begin; sample < window.end; ++sample)
    records.push_back(static_cast<std::uint32_t>(record_of({window.share, sample, 1})));
  std::ranges::sort(records);
  return records;
}

std::uint64_t SampleOrder::key_of(std::uint64_t share, std::uint64_t number) const {
  return number * settings_.shares.size() + share;
}

/// Returns the permutation of an epoch. epochs_[0] is the epoch that was used last, and epochs_[1] is the epoch that
/// was used before it.
const SampleOrder::Epoch& SampleOrder::epoch(std::uint64_t share, std::uint64_t number) {
  const std::uint64_t key = key_of(share, number);
  auto& [last, other] = epochs_;
  if (last.key == key && !last.permutation.empty()) return last;
  std::swap(last, other);
  if (last.key == key && !last.permutation.empty()) return last;

  last.key = key;
  const bool is_prepared = coming_.permutation.valid() && coming_.key == key;
  last.permutation = is_prepared ? coming_.permutation.get() : permutation_of(count_of(share), settings_, key);
  return last;
}

/// Starts a thread that computes the permutation. Small permutations are computed on demand, which is faster than a
/// thread start.
void SampleOrder::prepare(std::uint64_t share, std::uint64_t number) {
  constexpr std::uint64_t worth_a_thread = 10000;
  const std::uint64_t key = key_of(share, number), count = count_of(share);
  if (count < worth_a_thread || coming_.key == key || coming_.permutation.valid()) return;
  coming_.key = key;
  try {
    coming_.permutation = std::async(std::launch::async, permutation_of, count, settings_, key);
  } catch (const std::system_error&) {  // no thread is available, so the permutation will be computed when it is needed
  }
}

}  // namespace carillon
