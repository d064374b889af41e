#include "carillon/graph/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"

namespace carillon::testing {
namespace {

using Kind = Initializer::Kind;

TEST(ParameterLayout, FollowsTheBackwardOrderAligned) {
  const ParameterLayout layout({{"first", {3, 5}, {}, 0.0f}, {"second", {7}, {}, 0.0f}, {"third", {16}, {}, 0.0f}});
  EXPECT_EQ(layout.order(), (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(layout.offset(2), 0u);
  EXPECT_EQ(layout.offset(1), 16u);
  EXPECT_EQ(layout.offset(0), 32u);
  EXPECT_EQ(layout.count(0), 15u);
  EXPECT_EQ(layout.total(), 48u);
}

TEST(InitialValues, TruncatedNormalHasTheMomentsOfItsDistribution) {
  const ParameterSpec spec{"w", {400, 500}, {Kind::truncated_normal, 0.1f}, 0.0f};
  const std::vector<float> values = initial_values(spec, 1);
  double sum = 0.0, squares = 0.0, largest = 0.0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const double count = static_cast<double>(values.size());
  EXPECT_LT(largest, 0.2);
  EXPECT_GT(largest, 0.199);
  EXPECT_NEAR(sum / count, 0.0, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / count), 0.1 * 0.87963, 5e-4);  // 0.87963: standard deviation of N(0,1) truncated at 2
}

TEST(InitialValues, UniformOnesFillTheirInterval) {
  const auto values = initial_values({"weights", {200, 500}, {Kind::uniform, 0.25f}}, 3);
  double sum = 0.0, squares = 0.0;
  for (const float value : values) {
    ASSERT_GE(value, -0.25f);
    ASSERT_LT(value, 0.25f);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = static_cast<double>(values.size()), variance = 0.25 * 0.25 / 3.0;
  EXPECT_NEAR(sum / count, 0.0, 5.0 * std::sqrt(variance / count));
  EXPECT_NEAR(squares / count, variance, 0.01 * variance);
}

TEST(InitialValues, DependOnSeedAndNameAndNothingElse) {
  const ParameterSpec spec{"w", {100}, {Kind::truncated_normal, 1.0f}, 0.0f}, other{"v", {100}, spec.initializer, 0.0f};
  EXPECT_EQ(initial_values(spec, 1), initial_values(spec, 1));
  EXPECT_NE(initial_values(spec, 1), initial_values(spec, 2));
  EXPECT_NE(initial_values(spec, 1), initial_values(other, 1));
}

/// Returns the values of filter `o`, from weights of shape [height, width, in, out].
std::vector<float> filter_of(const std::vector<float>& values, std::size_t o, std::size_t out) {
  std::vector<float> filter;
  for (std::size_t i = o; i < values.size(); i += out) filter.push_back(values[i]);
  return filter;
}

TEST(InitialValues, DiracFiltersPassTheirChannelOnAndTheRestStaysDrawn) {
  for (const auto& [in, out] : {std::pair{2, 5}, std::pair{5, 2}, std::pair{3, 3}}) {
    ParameterSpec spec{"weights", {3, 3, in, out}, {Kind::uniform, 0.25f}};
    const std::vector<float> drawn = initial_values(spec, 3);
    spec.initializer.dirac = true;
    const std::vector<float> values = initial_values(spec, 3);
    for (int o = 0; o < out; ++o) {
      std::vector<float> expected = filter_of(drawn, o, out);
      if (o < in) {
        std::ranges::fill(expected, 0.0f);
        expected[static_cast<std::size_t>(4 * in + o)] = 1.0f;
      }
      EXPECT_EQ(filter_of(values, o, out), expected) << in << " to " << out << ", " << o;
    }
  }
  EXPECT_THROW(initial_values({"w", {4, 4, 2, 2}, {.kind = Kind::uniform, .value = 1.0f, .dirac = true}}, 1), Error);
  EXPECT_THROW(initial_values({"w", {9, 4}, {.kind = Kind::uniform, .value = 1.0f, .dirac = true}}, 1), Error);
}

TEST(InitialValues, OfANumberedVariableDependOnItsNumber) {
  const auto drawn = [](const std::string& name, int number) {
    return initial_values({name, {2}, {Kind::truncated_normal, 0.1f, number}, 0.0f}, 1);
  };
  EXPECT_EQ(drawn("a", 2), drawn("b", 2));
  EXPECT_NE(drawn("a", 2), drawn("a", 0));
  EXPECT_NE(drawn("a", 2), drawn("a", -1));
}

TEST(ParameterStore, HasTheSlotsThatItIsGiven) {
  CpuDevice device(1);
  const ParameterStore store({{"w", {3}, {}, 0.0f}}, device, {}, {{.name = "first"}, {.name = "second"}});
  EXPECT_EQ(store.slot_named("second"), 1);
  EXPECT_NE(store.slot(0, 0).data, store.slot(1, 0).data);
  EXPECT_EQ(store.slot(1).size(), store.layout().total());
  EXPECT_THROW(store.slot_named("third"), Error);
}

TEST(ParameterStore, KeepsVariablesAndSlotsInTheMemoryThatItIsGivenAndRefusesTooLittle) {
  CpuDevice device(1);
  const std::vector<ParameterSpec> specs{{"w", {3}, {}, 0.0f}, {"v", {20}, {}, 0.0f}};
  const std::size_t bytes = value_bytes(ParameterLayout(specs));
  std::vector<float> values(bytes / sizeof(float)), slots(2 * values.size());
  const auto store_in = [&](std::size_t of_values, std::size_t of_slots) {
    const auto keep = [](void*) {};
    return ParameterStore(
        specs, device,
        {.gradients = {}, .values = {values.data(), of_values, keep}, .slots = {slots.data(), of_slots, keep}},
        {{.name = "first"}, {.name = "second"}});
  };
  const ParameterStore store = store_in(bytes, 2 * bytes);
  EXPECT_EQ(store.values().data(), values.data());
  EXPECT_EQ(store.value(0).data, values.data() + store.layout().offset(0));
  EXPECT_EQ(store.slot(0).data(), slots.data());
  EXPECT_EQ(store.slot(1).data(), slots.data() + values.size());
  EXPECT_THROW(store_in(bytes - 1, 2 * bytes), Error);
  EXPECT_THROW(store_in(bytes, 2 * bytes - 1), Error);
  EXPECT_FALSE(store.gradient(0)) << "nobody trains";
}

TEST(BufferStore, HoldsItsInitialValuesAligned) {
  CpuDevice device(1);
  const BufferStore store({{.name = "mean", .shape = {3}, .initial_value = 0.5f},
                           {.name = "variance", .shape = {17}, .initial_value = 1.0f}},
                          device);
  EXPECT_EQ(store.values().size(), 16u + 32u);
  const Tensor mean = store.tensor(0), variance = store.tensor(1);
  EXPECT_EQ(std::vector<float>(mean.floats().begin(), mean.floats().end()), std::vector<float>(3, 0.5f));
  EXPECT_EQ(std::vector<float>(variance.floats().begin(), variance.floats().end()), std::vector<float>(17, 1.0f));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(variance.data) % tensor_alignment_bytes, 0u);
}

TEST(BufferStore, MayBeEmpty) {
  CpuDevice device(1);
  EXPECT_TRUE(BufferStore({}, device).values().empty());
}

}  // namespace
}  // namespace carillon::testing
