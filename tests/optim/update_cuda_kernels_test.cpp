#include "tests/optim/update_kernels_fixture.h"

namespace carillon::testing {
namespace {

TEST_F(UpdateKernels, EqualTheFormulaToTheBitAndKeepGapsZero) {
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{1}, {16}, {17, 3, 1}, {100, 257, 1000, 5}, {25, 4097, 1, 15, 3100}}) {
      ring_.step_counter = 0;
      build(counts);
      const Arrays expected = of_elements(arrays_, 0);  // gaps belong to no tensor, so they stay zero
      run_kernel(1.0f, 0.0f, order);
      EXPECT_EQ(arrays_, expected);
      EXPECT_EQ(ring_.step_counter, 1u);
      EXPECT_EQ(ring_.blocks_done, 0u);
    }
  }
}

TEST_F(UpdateKernels, WithoutAveragesChangeTheVariablesAlike) {
  build({25, 4097, 1, 15, 3100});
  Arrays expected = of_elements(arrays_, 0);
  expected.averages = arrays_.averages;
  has_averages_ = false;
  run_kernel(1.0f);
  EXPECT_EQ(arrays_, expected);
}

TEST_F(UpdateKernels, AThreadTakesSeveralPacksOfALargeArray) {
  build({SgdKernel{}.share.max_blocks * FlatShare::threads * FlatShare::pack + 1234, 17});
  const Arrays expected = of_elements(arrays_, 0);
  run_kernel(1.0f);
  EXPECT_EQ(arrays_, expected);
  EXPECT_EQ(ring_.step_counter, 1u);
}

TEST_F(UpdateKernels, AnArrayWithoutElementsStillEndsTheStep) {
  build({});
  run_kernel(2.0f);
  EXPECT_EQ(ring_.step_counter, 1u);
  EXPECT_EQ(ring_.outcome(0).loss, 2.0f);
}

TEST_F(UpdateKernels, EachStepFindsItsOwnEntryOfTheRing) {
  build({100, 257, 1000, 5});
  for (std::uint64_t step = 0; step < 3 * capacity + 1; ++step) {
    const Arrays expected = of_elements(arrays_, step);
    const float loss = 3.0f / static_cast<float>(step + 1), sync = step == 4 ? 0.25f : 0.0f;
    run_kernel(loss, sync);
    ASSERT_EQ(arrays_, expected) << step;
    EXPECT_EQ(ring_.outcome(step).loss, loss) << step;
    EXPECT_EQ(ring_.outcome(step).sync_requests, sync) << step;
    EXPECT_EQ(ring_.step_counter, step + 1);
    put(step + capacity);  // the host uses the entry of a finished step again in this way
  }
}

/// The compute copy belongs to a parameter of 3 rows and 7 columns, which comes after a parameter of 16 elements. The
/// test also writes the values of the gap after the parameter.
TEST(ComputeCopyIndexTest, HoldsAParameterInItsForm) {
  constexpr std::size_t offset = 16, rows = 3, columns = 7, count = rows * columns;
  const auto write = [&](void* data, std::uint32_t compute_copy_columns, DType type, ChannelPadding padding = {}) {
    const auto padded_rows = static_cast<std::uint32_t>(padding.extent(rows));
    const ComputeCopyIndex place{data, offset, count, compute_copy_columns, padded_rows, padding, type};
    for (std::size_t i = 0; i < aligned_float_count(count); i += FlatShare::pack) {
      Pack<float, FlatShare::pack> values;
      for (int k = 0; k < FlatShare::pack; ++k) values.at[k] = static_cast<float>(i) + static_cast<float>(k);
      place.write(values, offset + i);
    }
  };
  std::vector<Bf16> same_layout(aligned_float_count(count)), filter_major(count + 1, to_bf16(-1.0f));
  std::vector<float> wide(count + 1, -1.0f);
  write(same_layout.data(), 0, DType::bf16);
  write(filter_major.data(), columns, DType::bf16);
  write(wide.data(), columns, DType::f32);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i);
    const std::size_t place = i % columns * rows + i / columns;
    EXPECT_EQ(to_float(same_layout[i]), value);
    EXPECT_EQ(to_float(filter_major[place]), value) << i;
    EXPECT_EQ(wide[place], value) << i;
  }
  EXPECT_EQ(to_float(filter_major[count]), -1.0f);
  EXPECT_EQ(wide[count], -1.0f);

  const ChannelPadding padding{1, 4};  // each of the 3 rows is a pixel with one channel
  std::vector<float> with_zeros(columns * rows * padding.padded);
  write(with_zeros.data(), columns, DType::f32, padding);
  for (std::size_t i = 0; i < with_zeros.size(); ++i) {
    const std::size_t row = i / padding.padded % rows, column = i / padding.padded / rows;
    EXPECT_EQ(with_zeros[i], i % padding.padded == 0 ? static_cast<float>(row * columns + column) : 0.0f) << i;
  }
}

TEST_F(UpdateKernels, ALossThatIsNotFiniteEndsTheStepAndChangesNothing) {
  for (const float loss : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ring_.step_counter = 0;
    build({100, 3000});
    const Arrays before = arrays_;
    run_kernel(loss);
    EXPECT_EQ(arrays_, before);
    EXPECT_FALSE(std::isfinite(ring_.outcome(0).loss));
    EXPECT_EQ(ring_.step_counter, 1u);
  }
}

/// Tests the update of variables that have different factors and ages, for each rule.
template <typename Rule>
class RulesInUpdateKernels : public UpdateKernels {
 protected:
  static constexpr std::size_t slot_count = Rule::slots.size();
  using Slots = std::array<std::vector<float>, slot_count + 1>;  ///< slots of the rule, then of the lookahead

  static StepScalars scalars(std::int64_t step) {
    OptimizerSettings settings{.rule = std::string(Rule::name), .learning_rate = constant_rate(0.1)};
    settings.dampening = 0.25;
    settings.lookahead = {.every = 2, .decay = 0.25};
    return step_scalars(settings, step);
  }
  void launch(std::uint64_t step, Slots& slots) {
    sums_[loss_sum] = 1.0f;
    UpdateKernel<Rule> kernel{.gradients = arrays_.gradients.data(),
                              .values = arrays_.values.data(),
                              .averages = arrays_.averages.data(),
                              .factors = table(),
                              .block_sums = block_sums_.data(),
                              .table = ring_.table(),
                              .end = {sums_.data(), ring_.progress()}};
    for (std::size_t s = 0; s < slot_count; ++s) kernel.slots[s] = slots[s].data();
    kernel.slow = slots[slot_count].data();
    kernel.share.count = layout_->total();
    emulate(kernel, step % 2 == 0 ? ThreadOrder::ascending : ThreadOrder::descending);
  }
  /// Computes the same update as the kernels by the rule's definition, one element after the other.
  void define(std::int64_t step, Arrays& arrays, Slots& slots) const {
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      const UpdateFactors& factors = factors_[static_cast<std::size_t>(i)];
      const StepScalars own = scalars_of<Rule>(scalars(step), factors);
      for (std::size_t k = layout_->offset(i); k < layout_->offset(i) + layout_->count(i); ++k) {
        float kept[slot_count + 1] = {};
        for (std::size_t s = 0; s < slot_count; ++s) kept[s] = slots[s][k];
        if (factors.trains_at(step)) Rule::update(own, factors, arrays.gradients[k], arrays.values[k], kept);
        float* const slow = step % 2 == 1 ? &slots[slot_count][k] : nullptr;
        update_copies(own, arrays.values[k], &arrays.averages[k], slow);
        for (std::size_t s = 0; s < slot_count; ++s) slots[s][k] = kept[s];
      }
    }
  }
};

using Rules = ::testing::Types<Sgd, Momentum, Nesterov, AdamW>;
TYPED_TEST_SUITE(RulesInUpdateKernels, Rules);

TYPED_TEST(RulesInUpdateKernels, EachVariableHasItsFactorsAndKeepsItsSlotsFromStepToStep) {
  this->build({100, 257, 1000, 5, 40});
  this->factors_[1].rate = 0.5f;
  this->factors_[2].weight_decay = 0.125f;
  this->factors_[3].first_step = 2;
  this->factors_[4].end_step = 2;
  typename TestFixture::Slots slots, expected_slots;
  for (auto* const all : {&slots, &expected_slots}) all->fill(std::vector<float>(this->layout_->total()));
  for (auto* const all : {&slots, &expected_slots}) all->back() = this->filled(4);
  auto expected = this->arrays_;
  for (std::uint64_t step = 0; step < 5; ++step) {
    this->ring_.put(step, {.scalars = this->scalars(static_cast<std::int64_t>(step))}, std::vector<std::uint32_t>{0});
    this->launch(step, slots);
    this->define(static_cast<std::int64_t>(step), expected, expected_slots);
    EXPECT_EQ(this->arrays_, expected) << step;
    EXPECT_EQ(slots, expected_slots) << step;
  }
}

TEST_F(UpdateKernels, ComputeTheL2LossOfTheVariablesBeforeTheUpdate) {
  const std::int64_t large = SgdKernel::max_blocks * FlatShare::threads * FlatShare::pack + 1234;
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{}, {1}, {17, 3, 1}, {100, 257, 1000, 5}, {30000, 33, 17000}, {large, 33, 17}}) {
    std::vector<double> found;
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      ring_.step_counter = 0;
      build(counts);
      put(0, 1);
      const double expected = l2_loss();
      run_kernel(1.0f, 0.0f, order);
      EXPECT_NEAR(ring_.outcome(0).l2_loss, expected, 1e-12 * expected);
      found.push_back(ring_.outcome(0).l2_loss);
    }
    EXPECT_EQ(found[0], found[1]);
  }
}

TEST_F(UpdateKernels, ComputeNoL2LossUnlessRequested) {
  build({100, 257});
  run_kernel(1.0f);
  EXPECT_EQ(ring_.outcome(0).l2_loss, 0.0);
}

TEST_F(UpdateKernels, LeaveVariablesWithoutAFactorOutOfTheL2Loss) {
  build({100, 257});
  arrays_.values[layout_->offset(1)] = std::numeric_limits<float>::infinity();  // the L2 factor of this variable is 0
  put(0, 1);
  run_kernel(1.0f);
  EXPECT_TRUE(std::isfinite(ring_.outcome(0).l2_loss));
}

}  // namespace
}  // namespace carillon::testing
