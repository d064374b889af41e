#include "src/step/update/shard_checksums.h"

#include <vector>

#include "src/step/update/shard_log.h"

namespace carillon {
namespace {

/// One rank updates variable by variable, several ranks update their shards.
std::vector<Slice> parts_of(const ParameterLayout& layout, const SharedHostMemory& memory) {
  std::vector<Slice> parts;
  if (memory.size() == 1) {
    for (const int parameter : layout.order()) {
      parts.push_back({layout.offset(parameter), layout.offset(parameter) + layout.count(parameter)});
    }
    return parts;
  }
  for (int rank = 0; rank < memory.size(); ++rank) parts.push_back(memory.shard(layout.total(), rank));
  return parts;
}

}  // namespace

std::size_t ShardChecksums::bytes(std::size_t count, int ranks) {
  constexpr std::size_t alignment = 64;
  return (blocks_of_largest_shard(count, ranks) * sizeof(std::uint64_t) + alignment - 1) / alignment * alignment;
}

ShardChecksums::ShardChecksums(const ParameterStore& parameters, const SharedHostMemory& memory, std::byte* own)
    : parameters_(parameters), memory_(memory), own_(own), sums_(parameters, parts_of(parameters.layout(), memory)) {}

Slice ShardChecksums::elements_of(int parameter) const {
  const std::size_t first = parameters_.layout().offset(parameter);
  return {first, first + parameters_.layout().count(parameter)};
}

std::uint64_t& ShardChecksums::published(int owner, std::size_t first) const {
  const std::size_t block = (first - shard(owner).begin) / sum_block_floats;
  return reinterpret_cast<std::uint64_t*>(memory_.on_rank(owner, own_))[block];
}

void ShardChecksums::record() {
  if (memory_.size() == 1) {
    for (const int parameter : parameters_.layout().order()) record(parameter);
    return;
  }
  for (int rank = 0; rank < memory_.size(); ++rank) sums_.record(shard(rank), arrays_of(rank));
}

void ShardChecksums::check() {
  if (memory_.size() == 1) {
    for (const int parameter : parameters_.layout().order()) compare(parameter);
  } else {
    sums_.compare(shard(memory_.rank()));
    compare_other_shards();
  }
  require_unchanged();
}

void ShardChecksums::compare_other_shards() {
  for (int rank = 0; rank < memory_.size(); ++rank) {
    if (rank != memory_.rank()) sums_.compare(shard(rank), MemoryChecksums::Arrays::values);
  }
}

void ShardChecksums::check_received() {
  for (int rank = 0; rank < memory_.size(); ++rank) {
    if (rank == memory_.rank()) continue;
    for (std::size_t first = shard(rank).begin; first < shard(rank).end; first += sum_block_floats) {
      sums_.value_checksum(first) = published(rank, first);
    }
  }
  compare_other_shards();
  require_unchanged();
}

}  // namespace carillon
