// UpdateKernels: fixture that emulates the CUDA kernels of optimisers on the CPU, with variables and gradients.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "src/optim/rules.h"
#include "src/optim/update_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {

using SgdKernel = UpdateKernel<Sgd>;

/// Variables with several sizes and L2 factors, and with random values. The gaps between them contain zeros.
class UpdateKernels : public ::testing::Test {
 protected:
  static constexpr std::uint32_t capacity = 4;
  struct Arrays {
    std::vector<float> values, averages, gradients;
    bool operator==(const Arrays&) const = default;
  };

  void build(const std::vector<std::int64_t>& counts) {
    specs_.clear();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      specs_.push_back({"v", {counts[i]}, {}, i % 2 == 0 ? 0.01f * static_cast<float>(i + 1) : 0.0f});
    }
    layout_.emplace(specs_);
    factors_.clear();
    for (const ParameterSpec& spec : specs_) factors_.push_back({.l2 = spec.l2_factor});
    variables_ = variables_of_lines(*layout_);
    arrays_ = {filled(1), filled(2), filled(3)};
    for (std::uint64_t step = 0; step < capacity; ++step) put(step);
  }

  std::vector<float> filled(std::uint64_t seed) const {
    std::vector<float> flat(layout_->total());
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      const std::vector<float> values = random_values(layout_->count(i), seed * 100 + static_cast<std::uint64_t>(i));
      std::ranges::copy(values, flat.begin() + static_cast<std::ptrdiff_t>(layout_->offset(i)));
    }
    return flat;
  }

  FactorTable table() const { return {variables_.data(), factors_.data()}; }

  static StepHeader header(std::uint64_t step) {
    const float s = static_cast<float>(step);
    StepHeader header;
    header.scalars.at[learning_rate_scalar] = 0.1f / (1.0f + s);
    header.scalars.at[average_decay_scalar] = (1.0f + s) / (10.0f + s);
    return header;
  }
  void put(std::uint64_t step, std::uint32_t reports_l2 = 0) {
    StepHeader of_step = header(step);
    of_step.reports_l2 = reports_l2;
    ring_.put(step, of_step, std::vector<std::uint32_t>{0});
  }
  /// Returns the L2 loss of the current variables, by its definition.
  double l2_loss() const {
    double sum = 0.0;
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      for (const float value : std::span(arrays_.values).subspan(layout_->offset(i), layout_->count(i))) {
        sum += specs_[static_cast<std::size_t>(i)].l2_factor * static_cast<double>(value) * value;
      }
    }
    return 0.5 * sum;
  }

  void run_kernel(float loss, float sync = 0.0f, ThreadOrder order = ThreadOrder::ascending) {
    sums_[loss_sum] = loss;
    sums_[sync_sum] = sync;
    SgdKernel kernel{.gradients = arrays_.gradients.data(),
                     .values = arrays_.values.data(),
                     .averages = has_averages_ ? arrays_.averages.data() : nullptr,
                     .factors = table(),
                     .block_sums = block_sums_.data(),
                     .table = ring_.table(),
                     .end = {sums_.data(), ring_.progress()}};
    kernel.share.count = layout_->total();
    emulate(kernel, order);
  }

  /// Returns `before` after the update of step `step`, computed by update_element one element after the other.
  Arrays of_elements(Arrays before, std::uint64_t step) const {
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      for (std::size_t k = layout_->offset(i); k < layout_->offset(i) + layout_->count(i); ++k) {
        update_element<Sgd>(header(step).scalars, factors_[static_cast<std::size_t>(i)], before.gradients[k],
                            before.values[k], &before.averages[k], nullptr);
      }
    }
    return before;
  }

  bool has_averages_ = true;
  std::vector<ParameterSpec> specs_;
  std::optional<ParameterLayout> layout_;
  std::vector<std::uint32_t> variables_;
  std::vector<UpdateFactors> factors_;
  std::vector<double> block_sums_ = std::vector<double>(SgdKernel::max_blocks, NAN);
  std::vector<float> sums_ = std::vector<float>(step_sum_count);
  Arrays arrays_;
  StepRing ring_{1, capacity, 1, {0}, {0}};
};

}  // namespace carillon::testing
