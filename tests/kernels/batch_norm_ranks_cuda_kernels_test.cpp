// Runs the CUDA kernels of batch_norm over all ranks on the CPU, by loops over blocks and threads (`emulate`). Compares
// the results of several ranks, each with a part of the batch, with the results of one rank that has the whole batch.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/batch_norm/batch_norm_kernels.h"
#include "kernels/shared/block_kernel.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr std::int64_t rows = 300, columns = 12;  // rows: number of rows of each rank

/// The arrays of one rank that have a fixed number of values per channel.
struct Channels {
  std::vector<float> gamma = random_values(columns, 1), beta = random_values(columns, 2);
  std::vector<float> moving_mean = std::vector<float>(columns, 0.0f),
                     moving_variance = std::vector<float>(columns, 1.0f);
  std::vector<ChannelStatistics> statistics = std::vector<ChannelStatistics>(columns);
  std::vector<float> norm = std::vector<float>(3 * columns), gradient = std::vector<float>(3 * columns);
  std::vector<float> dgamma = std::vector<float>(columns), dbeta = std::vector<float>(columns);

  ChannelNorms norms() { return {norm.data(), norm.data() + columns, norm.data() + 2 * columns}; }
  ChannelGradients gradients() { return {gradient.data(), gradient.data() + columns, gradient.data() + 2 * columns}; }
  BatchNormChannels of() {
    return {.gamma = gamma.data(),
            .beta = beta.data(),
            .moving_mean = moving_mean.data(),
            .moving_variance = moving_variance.data(),
            .statistics = statistics.data(),
            .norm = norms(),
            .epsilon = 1e-5f,
            .momentum = 0.1f};
  }
};

/// One rank's rows of the batch, and the memory to which the blocks of its kernels write their sums.
struct Part {
  std::int64_t row_count;
  const float *x, *dy;
  ColumnCut cut = column_cut(row_count, columns, 1, batch_norm_lanes);
  std::vector<double> memory = std::vector<double>(2 * static_cast<std::size_t>(cut.row_blocks()) * columns);
  std::vector<std::uint32_t> blocks_done = std::vector<std::uint32_t>(static_cast<std::size_t>(cut.column_blocks()));

  ColumnParts parts() { return {memory.data(), memory.data() + memory.size() / 2}; }
  void combine_moments(Channels& channels, const OwnSums& own) {
    emulate(
        ColumnSums<1, BatchMoments<float, 1>, CombineMoments>{
            {x}, cut, parts(), {{}, channels.of(), own}, blocks_done.data()},
        ThreadOrder::ascending);
  }
  void combine_gradients(Channels& channels, const OwnSums& own) {
    const CombineGradients finish{
        {}, channels.of(), channels.gradients(), channels.dgamma.data(), channels.dbeta.data(), own};
    emulate(
        ColumnSums<1, BatchGradients<float, 1, Relu>, CombineGradients>{
            {x, dy, channels.norms()}, cut, parts(), finish, blocks_done.data()},
        ThreadOrder::ascending);
  }
};

TEST(BatchNormKernelsOverRanks, EqualThoseOfTheWholeBatch) {
  constexpr int ranks = 3;
  std::vector<float> x = random_values(ranks * rows * columns, 5), dy = random_values(ranks * rows * columns, 6);
  // The ranks' rows have different means.
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i / (rows * columns));
  Channels whole;
  Part all{ranks * rows, x.data(), dy.data()};
  all.combine_moments(whole, {});
  all.combine_gradients(whole, {});

  constexpr std::int64_t row = 2 * columns + 8;
  std::vector<double> sums(ranks * row, std::nan(""));
  const ValuesOfRanks of_ranks{sums.data(), sums.data() + columns, row, ranks};
  const auto own = [&](int rank) { return OwnSums{sums.data() + rank * row, sums.data() + rank * row + columns}; };
  std::vector<Channels> channels(ranks);
  std::vector<Part> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.push_back({rows, x.data() + rank * rows * columns, dy.data() + rank * rows * columns});
    parts.back().combine_moments(channels[static_cast<std::size_t>(rank)], own(rank));
  }
  for (Channels& each : channels) {
    emulate(ForEachElement{NormOfRanks{of_ranks, rows, each.of()}, columns}, ThreadOrder::ascending);
    expect_near(each.norm, whole.norm, 1e-6);
    expect_near(each.moving_mean, whole.moving_mean, 1e-6);
    expect_near(each.moving_variance, whole.moving_variance, 1e-6);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    parts[static_cast<std::size_t>(rank)].combine_gradients(channels[static_cast<std::size_t>(rank)], own(rank));
  }
  std::vector<float> dgamma(columns), dbeta(columns);
  for (Channels& each : channels) {
    const GradientsOfRanks kernel{of_ranks, rows, each.of(), each.gradients()};
    emulate(ForEachElement{kernel, columns}, ThreadOrder::ascending);
    expect_near(each.gradient, whole.gradient, 1e-6);
    for (std::size_t c = 0; c < columns; ++c) {
      dgamma[c] += each.dgamma[c];
      dbeta[c] += each.dbeta[c];
    }
  }
  expect_near(dgamma, whole.dgamma, 1e-4);
  expect_near(dbeta, whole.dbeta, 1e-4);
}

}  // namespace
}  // namespace carillon::testing
