#include "src/step/update/memory_checksums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

namespace carillon {
namespace {

constexpr std::size_t block_floats = 4096;

std::size_t blocks_of(const MemoryChecksums::Part& part) {
  return (part.values.size() + block_floats - 1) / block_floats;
}

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

MemoryChecksums::MemoryChecksums(const ParameterStore& parameters, std::vector<Part> parts)
    : parameters_(parameters), parts_(std::move(parts)) {
  std::size_t blocks = 0;
  for (const Part& part : parts_) blocks += blocks_of(part);
  recorded_.resize(blocks);
}

void MemoryChecksums::compute(std::vector<std::uint64_t>& checksums) const {
  std::uint64_t* of_part = checksums.data();
  for (const Part& part : parts_) {
    parallel_blocks(part.values.size(), block_floats, elementwise_grain, [&](std::size_t begin, std::size_t end) {
      of_part[begin / block_floats] = sum_of_words(part.values.data() + begin, end - begin);
    });
    of_part += blocks_of(part);
  }
}

void MemoryChecksums::record() {
  compute(recorded_);
  is_recorded_ = true;
}

void MemoryChecksums::check() const {
  if (!is_recorded_) return;
  std::vector<std::uint64_t> current(recorded_.size());
  compute(current);
  std::size_t block = static_cast<std::size_t>(std::ranges::mismatch(recorded_, current).in1 - recorded_.begin());
  if (block == recorded_.size()) return;
  for (const Part& part : parts_) {
    if (block < blocks_of(part)) fail_at(part, block);
    block -= blocks_of(part);
  }
}

void MemoryChecksums::fail_at(const Part& part, std::size_t block) const {
  const std::size_t begin = part.first + block * block_floats;
  const std::size_t end = std::min(begin + block_floats, part.first + part.values.size());
  const ParameterLayout& layout = parameters_.layout();
  std::string names;
  for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
    const std::size_t first = layout.offset(static_cast<int>(i)), count = layout.count(static_cast<int>(i));
    if (first < end && first + count > begin) names += (names.empty() ? "" : " or ") + parameters_.specs()[i].name;
  }
  fail_changed(fmt::format("{} {}", part.name, names));
}

void check_equal_bytes(std::span<const float> first, std::span<const float> second, std::string_view what) {
  if (first.size() == second.size() && std::memcmp(first.data(), second.data(), first.size_bytes()) == 0) return;
  fail_changed(what);
}

}  // namespace carillon
