#include "src/step/update/memory_checksums.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

namespace carillon {
namespace {

std::size_t block_count(Slice part) { return (part.end - part.begin + sum_block_floats - 1) / sum_block_floats; }

CARILLON_SIMD std::uint64_t sum_of_words(const float* values, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t word;
    std::memcpy(&word, values + i, sizeof(word));
    sum += word;
  }
  return sum;
}

[[noreturn]] void fail_changed(std::string_view what) {
  throw ChangedInMemory(ExitCode::failed,
                        fmt::format("{} has changed in memory since the last update; check this host's memory", what));
}

}  // namespace

MemoryChecksums::MemoryChecksums(const ParameterStore& parameters, std::vector<Slice> parts) : parameters_(parameters) {
  std::size_t blocks = 0;
  for (const Slice part : parts) {
    parts_.push_back({part, blocks});
    blocks += block_count(part);
  }
  recorded_.assign(1 + parameters_.slots().size(), std::vector<std::uint64_t>(blocks));
}

const MemoryChecksums::Part& MemoryChecksums::part_at(std::size_t element) const {
  return *(std::ranges::upper_bound(parts_, element, {}, [](const Part& part) { return part.elements.begin; }) - 1);
}

std::size_t MemoryChecksums::block_at(std::size_t first) const {
  const Part& part = part_at(first);
  return part.first_block + (first - part.elements.begin) / sum_block_floats;
}

std::span<const float> MemoryChecksums::array(std::size_t number) const {
  return number == 0 ? parameters_.values() : parameters_.slot(static_cast<int>(number) - 1);
}

template <typename Visit>
void MemoryChecksums::sum_blocks(Slice elements, Arrays arrays, const Visit& visit) const {
  if (elements.begin == elements.end) return;
  const std::size_t count = arrays == Arrays::values ? 1 : recorded_.size(), first_block = block_at(elements.begin);
  parallel_blocks(elements.end - elements.begin, sum_block_floats, elementwise_grain / count,
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t number = 0; number < count; ++number) {
                      const float* const values = array(number).data() + elements.begin + begin;
                      visit(number, first_block + begin / sum_block_floats, sum_of_words(values, end - begin));
                    }
                  });
}

void MemoryChecksums::record(Slice elements, Arrays arrays) {
  sum_blocks(elements, arrays,
             [&](std::size_t number, std::size_t block, std::uint64_t sum) { recorded_[number][block] = sum; });
}

void MemoryChecksums::compare(Slice elements, Arrays arrays) {
  const std::size_t first_block = block_at(elements.begin);
  sum_blocks(elements, arrays, [&](std::size_t number, std::size_t block, std::uint64_t sum) {
    if (recorded_[number][block] == sum) return;
    const std::size_t first = elements.begin + (block - first_block) * sum_block_floats;
    std::int64_t none = -1;
    changed_.compare_exchange_strong(none, static_cast<std::int64_t>(number * parameters_.values().size() + first));
  });
}

void MemoryChecksums::require_unchanged() {
  const std::int64_t changed = changed_.exchange(-1);
  if (changed < 0) return;
  const std::size_t total = parameters_.values().size(), number = static_cast<std::size_t>(changed) / total;
  const std::size_t begin = static_cast<std::size_t>(changed) % total;
  const std::size_t end = std::min(begin + sum_block_floats, part_at(begin).elements.end);
  std::string what = number == 0 ? "variable" : "slot " + parameters_.slots()[number - 1].name + " of";
  const ParameterLayout& layout = parameters_.layout();
  std::string_view separator = " ";
  for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
    const std::size_t first = layout.offset(static_cast<int>(i)), count = layout.count(static_cast<int>(i));
    if (first >= end || first + count <= begin) continue;
    what.append(separator).append(parameters_.specs()[i].name);
    separator = " or ";
  }
  fail_changed(what);
}

void check_equal_bytes(std::span<const float> first, std::span<const float> second, std::string_view what) {
  if (first.size() == second.size() && std::memcmp(first.data(), second.data(), first.size_bytes()) == 0) return;
  fail_changed(what);
}

}  // namespace carillon
