#include "tests/support/op_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/core/bf16.h"

namespace carillon::testing {

OpResults results_of(const OpCase& op, OpHarness& harness) {
  for (const ParameterSpec& spec : harness.graph().parameters()) {
    std::vector<float> values = copy(harness.values(spec.name));
    for (float& value : values) value = op.integers ? std::round(1.5f * value) : to_float(to_bf16(value));
    harness.set(spec.name, values);
  }
  OpResults results;
  results["output"] = copy(harness.forward());
  harness.backward();
  for (const ParameterSpec& spec : harness.graph().parameters()) {
    results["gradient of " + spec.name] = copy(harness.gradient(spec.name));
  }
  return results;
}

void expect_close(const OpResults& expected, const OpResults& got, float tolerance) {
  ASSERT_EQ(expected.size(), got.size());
  for (const auto& [name, values] : expected) {
    float scale = 0.0f;
    for (const float value : values) scale = std::max(scale, std::abs(value));
    ASSERT_EQ(values.size(), got.at(name).size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], got.at(name)[i], tolerance * scale) << name << " element " << i;
    }
  }
}

void expect_reported(const OpCase& op, OpHarness& harness, float bad) {
  if (op.is_bounded && std::isinf(bad)) return;
  bool has_input = op.image_bytes > 1;
  for (const ParameterSpec& spec : harness.graph().parameters()) {
    if (spec.name != "x" && spec.name != "z") continue;
    has_input = true;
    std::vector<float> values = copy(harness.values(spec.name));
    if (op.drops) std::ranges::fill(values, bad);
    values[values.size() / 2] = bad;
    harness.set(spec.name, values);
    const std::span<const float> output = harness.forward();
    EXPECT_FALSE(std::ranges::all_of(output, [](float y) { return std::isfinite(y); })) << bad << " is lost";
  }
  EXPECT_TRUE(has_input) << "nothing was put in: name the input x";
}

OpOnCpu::OpOnCpu(const OpCase& op, Device& device, Arithmetic arithmetic)
    : samples_(40, static_cast<std::size_t>(op.batch), op.image_bytes),
      labels_(samples_.labels()),
      harness_(op.batch, device, arithmetic) {
  inputs_.batch = samples_.batch();
  inputs_.targets = std::as_writable_bytes(std::span(labels_)).data();
  harness_.finish(op.build(harness_), inputs_);
}

}  // namespace carillon::testing
