#include "src/step/update/shard_norm.h"

#include <algorithm>
#include <utility>

#include "carillon/core/parallel.h"

namespace carillon {

std::size_t ShardNorm::bytes(std::size_t count) {
  constexpr std::size_t alignment = 64;
  return (GradientNorm::block_count(count) * sizeof(double) + alignment - 1) / alignment * alignment;
}

ShardNorm::ShardNorm(GradientNorm norm, const ParameterStore& parameters, SharedHostMemory& memory, std::byte* own)
    : norm_(std::move(norm)), parameters_(parameters), memory_(memory), own_(own), square_sums_(norm_.block_count()) {}

Slice ShardNorm::elements_of(int rank) const {
  const std::size_t blocks = norm_.block_count(), ranks = static_cast<std::size_t>(memory_.size());
  const auto edge = [&](std::size_t part) {
    return std::min(blocks * part / ranks * sum_block_floats, parameters_.layout().total());
  };
  return {edge(static_cast<std::size_t>(rank)), edge(static_cast<std::size_t>(rank) + 1)};
}

std::span<double> ShardNorm::published(int rank) const {
  return {reinterpret_cast<double*>(memory_.on_rank(rank, own_)), norm_.block_count()};
}

ClippedNorm ShardNorm::find(bool are_means) {
  const Slice own = elements_of(memory_.rank());
  const std::span<const float> gradients = parameters_.gradients_and_sums().subspan(own.begin, own.end - own.begin);
  const std::span<double> sums = published(memory_.rank());
  const auto take = [&](std::size_t first, std::span<const float> means) {
    sums[(own.begin + first) / sum_block_floats] = norm_.square_sum(own.begin + first, means);
  };
  if (are_means) {
    parallel_blocks(gradients.size(), sum_block_floats, elementwise_grain,
                    [&](std::size_t begin, std::size_t end) { take(begin, gradients.subspan(begin, end - begin)); });
  } else {
    memory_.means_of(gradients, take);
  }
  memory_.meet();
  for (int rank = 0; rank < memory_.size(); ++rank) {
    const Slice of_rank = elements_of(rank);
    const std::size_t begin = of_rank.begin / sum_block_floats, end = GradientNorm::block_count(of_rank.end);
    std::ranges::copy(published(rank).subspan(begin, end - begin),
                      square_sums_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return norm_.of_blocks(square_sums_);
}

}  // namespace carillon
