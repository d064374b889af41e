#include "src/graph/batch_tiling.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image_input/image_input.h"
#include "kernels/pool/pool.h"
#include "src/graph/memory_plan.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

/// Returns the ops and the number of tiles of each section, such as "input | conv pool x16 | logits".
std::string text_of(const Graph& graph, int workers) {
  std::string text;
  for (const TiledSection& section : plan_tiling(graph, workers)) {
    text += text.empty() ? "" : " | ";
    for (int op = section.first; op < section.last; ++op) {
      text += (op > section.first ? " " : "") + graph.nodes()[op].name;
    }
    if (section.is_tiled()) text += " x" + std::to_string(section.tiles);
  }
  return text;
}

Graph cifar10(std::int64_t batch_size) {
  return build_network(cifar10_network(cifar10_images()), ten_classes(), {.batch_size = batch_size}).graph;
}

TEST(BatchTiling, AreOfNeighboursThatHaveIndependentSamplesInTilesThatFitACache) {
  EXPECT_EQ(text_of(cifar10(128), 2),
            "input | conv1 pool1 norm1 conv2 norm2 pool2 x16 | local3 | local4 | softmax_linear | cross_entropy");
}

TEST(BatchTiling, DependOnNoNumberOfThreads) {
  for (const int workers : {1, 3, 100}) EXPECT_EQ(text_of(cifar10(128), workers), text_of(cifar10(128), 2));
}

TEST(BatchTiling, AreSingleOpsOnADeviceWithoutWorkers) {
  const Graph graph = cifar10(128);
  const std::vector<TiledSection> sections = plan_tiling(graph, 0);
  ASSERT_EQ(sections.size(), graph.nodes().size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    EXPECT_EQ(sections[i].first, static_cast<int>(i));
    EXPECT_EQ(sections[i].last, static_cast<int>(i) + 1);
    EXPECT_FALSE(sections[i].is_tiled());
  }
}

TEST(BatchTiling, OfABatchThatFitsACacheTakeItWhole) {
  EXPECT_EQ(text_of(cifar10(8), 2), text_of(cifar10(8), 0));
  EXPECT_NE(text_of(cifar10(9), 2), text_of(cifar10(9), 0));
}

TEST(BatchTiling, ExcludesOpsWithManyParametersAndSingleOps) {
  Graph graph(256);
  Value x = image_input(graph, "input", {.sample = {8, 8, 256}});
  x = conv2d(graph, "many", x, {.filters = 256, .kernel = 3});  // the weights have 2.4 MB
  x = max_pool(graph, "alone", x, {.window = 2, .stride = 2});
  x = dense(graph, "dense", x, {.units = 10});
  EXPECT_EQ(text_of(graph, 2), "input | many | alone | dense");
}

TEST(BatchTiling, CutTheBatchIntoEqualTilesSoManyThatTwoAndFourThreadsShareThem) {
  for (std::int64_t batch = 1; batch <= 300; ++batch) {
    for (const TiledSection& section : plan_tiling(cifar10(batch), 2)) {
      if (!section.is_tiled()) continue;
      EXPECT_TRUE(section.tiles == 2 || section.tiles % 4 == 0) << batch;
      EXPECT_EQ(section.begin_of(0), 0);
      EXPECT_EQ(section.begin_of(section.tiles), batch);
      for (int tile = 0; tile < section.tiles; ++tile) {
        EXPECT_GE(section.samples_of(tile), std::max<std::int64_t>(1, section.max_samples() - 1)) << batch;
        EXPECT_LE(section.samples_of(tile), std::min<std::int64_t>(8, section.max_samples())) << batch;
      }
    }
  }
}

TEST(BatchTiling, OfLargeBatchesAreInLargerTilesInsteadOfMore) {
  EXPECT_EQ(plan_tiling(cifar10(512), 2)[1].tiles, 64);
  EXPECT_EQ(plan_tiling(cifar10(4096), 2)[1].tiles, 64);
  EXPECT_EQ(plan_tiling(cifar10(128), 2, 16)[1].tiles, 8);
  EXPECT_EQ(plan_tiling(cifar10(16), 2, 16)[1].tiles, 1);
  const TiledSection section = plan_tiling(cifar10(100), 2, 16)[1];
  ASSERT_GT(section.tiles, 1);
  for (int tile = 0; tile < section.tiles; ++tile) {
    EXPECT_EQ(section.begin_of(tile) % 16, 0);
    EXPECT_GT(section.samples_of(tile), 0);
    EXPECT_LE(section.samples_of(tile), section.max_samples());
  }
  EXPECT_EQ(section.begin_of(section.tiles), 100);
}

TEST(BatchTiling, HaveNoMoreWorkersThanTiles) {
  EXPECT_EQ(plan_tiling(cifar10(128), 3)[1].workers, 3);
  EXPECT_EQ(plan_tiling(cifar10(128), 100)[1].workers, 16);
}

/// Only pool1 reads the output of conv1. pool1's backward pass writes the gradient of this output, and conv1's backward
/// pass reads the gradient.
TEST(BatchTiling, WhatNobodyElseReadsHasMemoryForATilePerWorker) {
  const Graph graph = cifar10(128);
  const std::vector<Lifetime> whole = tensor_lifetimes(graph, plan_tiling(graph, 0), true, {});
  const std::vector<Lifetime> tiled = tensor_lifetimes(graph, plan_tiling(graph, 3), true, {});
  const std::size_t value_count = graph.values().size();
  const auto index_of = [&](const std::string& name) {
    const auto has_name = [&](const Graph::ValueInfo& value) { return value.name == name && value.producer >= 0; };
    const auto found = std::ranges::find_if(graph.values(), has_name);
    EXPECT_NE(found, graph.values().end()) << name;
    return static_cast<std::size_t>(found - graph.values().begin());
  };
  for (const std::string name : {"conv1", "norm2"}) {
    const std::size_t value = index_of(name);
    SCOPED_TRACE(name);
    EXPECT_TRUE(tiled.at(value).per_worker);
    EXPECT_TRUE(tiled.at(value_count + value).per_worker);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (tiled[i].per_worker) {
      EXPECT_EQ(tiled[i].bytes, whole[i].bytes / 16 * 3) << graph.values()[i % value_count].name;
    } else {
      EXPECT_EQ(tiled[i].bytes, whole[i].bytes);
    }
  }
  EXPECT_FALSE(tiled[index_of("norm1")].per_worker);  // conv2's backward pass reads norm1
  EXPECT_FALSE(tiled[index_of("pool2")].per_worker);  // local3 reads pool2
}

TEST(BatchTiling, ResultsAreOfTheWholeBatch) {
  const Graph graph = cifar10(128);
  const std::vector<TiledSection> sections = plan_tiling(graph, 2);
  const int inside = graph.nodes()[sections[1].first].outputs.front();
  const std::vector<Value> results{{inside}};
  EXPECT_TRUE(tensor_lifetimes(graph, sections, false, {})[inside].per_worker);
  EXPECT_FALSE(tensor_lifetimes(graph, sections, false, results)[inside].per_worker);
}

}  // namespace
}  // namespace carillon::testing
