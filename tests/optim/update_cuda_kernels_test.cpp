#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/optim/norm_kernels.h"
#include "src/optim/rules.h"
#include "src/optim/update_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/op_harness.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

using SgdKernel = UpdateKernel<Sgd>;

/// Variables of several sizes and factors, with random contents and gaps of zeros.
class UpdateKernels : public ::testing::Test {
 protected:
  static constexpr std::uint32_t capacity = 3;
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
  void put(std::uint64_t step) { ring_.put(step, header(step), std::vector<std::uint32_t>{0}); }

  void run_kernel(float loss, float pause = 0.0f, ThreadOrder order = ThreadOrder::ascending) {
    sums_[cross_entropy_sum] = loss;
    sums_[pause_sum] = pause;
    SgdKernel kernel{.gradients = arrays_.gradients.data(),
                     .values = arrays_.values.data(),
                     .averages = arrays_.averages.data(),
                     .factors = table(),
                     .table = ring_.table(),
                     .end = {sums_.data(), ring_.progress()}};
    kernel.share.count = layout_->total();
    emulate(kernel, order);
  }

  /// What the elements' formula makes of `before` at `step`, tensor by tensor.
  Arrays of_elements(Arrays before, std::uint64_t step) const {
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      for (std::size_t k = layout_->offset(i); k < layout_->offset(i) + layout_->count(i); ++k) {
        update_element<Sgd>(header(step).scalars, factors_[static_cast<std::size_t>(i)], before.gradients[k],
                            before.values[k], before.averages[k], nullptr);
      }
    }
    return before;
  }

  std::vector<ParameterSpec> specs_;
  std::optional<ParameterLayout> layout_;
  std::vector<std::uint32_t> variables_;
  std::vector<UpdateFactors> factors_;
  std::vector<float> sums_ = std::vector<float>(step_sum_count);
  Arrays arrays_;
  StepRing ring_{1, capacity, 1, {0}, {0}};
};

TEST_F(UpdateKernels, EqualTheFormulaToTheBitAndKeepGapsZero) {
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{1}, {16}, {17, 3, 1}, {100, 257, 1000, 5}, {25, 4097, 1, 15, 3100}}) {
      ring_.step_counter = 0;
      build(counts);
      const Arrays expected = of_elements(arrays_, 0);  // gaps keep their zeros there: no tensor holds them
      run_kernel(1.0f, 0.0f, order);
      EXPECT_EQ(arrays_, expected);
      EXPECT_EQ(ring_.step_counter, 1u);
      EXPECT_EQ(ring_.blocks_done, 0u);
    }
  }
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
  EXPECT_EQ(ring_.outcome(0).cross_entropy, 2.0f);
}

TEST_F(UpdateKernels, EachStepFindsItsOwnEntryOfTheRing) {
  build({100, 257, 1000, 5});
  for (std::uint64_t step = 0; step < 3 * capacity + 1; ++step) {
    const Arrays expected = of_elements(arrays_, step);
    const float loss = 3.0f / static_cast<float>(step + 1), pause = step == 4 ? 0.25f : 0.0f;
    run_kernel(loss, pause);
    ASSERT_EQ(arrays_, expected) << step;
    EXPECT_EQ(ring_.outcome(step).cross_entropy, loss) << step;
    EXPECT_EQ(ring_.outcome(step).pause, pause) << step;
    EXPECT_EQ(ring_.step_counter, step + 1);
    put(step + capacity);  // as the host refills the entry that is over
  }
}

TEST_F(UpdateKernels, ALossThatIsNotFiniteEndsTheStepAndChangesNothing) {
  for (const float loss : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ring_.step_counter = 0;
    build({100, 3000});
    const Arrays before = arrays_;
    run_kernel(loss);
    EXPECT_EQ(arrays_, before);
    EXPECT_FALSE(std::isfinite(ring_.outcome(0).cross_entropy));
    EXPECT_EQ(ring_.step_counter, 1u);
  }
}

/// What a rule makes of a variable whose factors and age differ from the rest's.
template <typename Rule>
class RulesInUpdateKernels : public UpdateKernels {
 protected:
  static constexpr std::size_t slot_count = Rule::slots.size();
  using Slots = std::array<std::vector<float>, slot_count>;

  static StepScalars scalars(std::int64_t step) {
    OptimizerSettings settings{.rule = std::string(Rule::name), .learning_rate = constant_rate(0.1)};
    settings.dampening = 0.25;
    settings.nesterov = true;
    return step_scalars(settings, step);
  }
  void launch(std::uint64_t step, Slots& slots) {
    sums_[cross_entropy_sum] = 1.0f;
    UpdateKernel<Rule> kernel{.gradients = arrays_.gradients.data(),
                              .values = arrays_.values.data(),
                              .averages = arrays_.averages.data(),
                              .factors = table(),
                              .table = ring_.table(),
                              .end = {sums_.data(), ring_.progress()}};
    for (std::size_t s = 0; s < slot_count; ++s) kernel.slots[s] = slots[s].data();
    kernel.share.count = layout_->total();
    emulate(kernel, step % 2 == 0 ? ThreadOrder::ascending : ThreadOrder::descending);
  }
  /// The same, element by element.
  void define(std::int64_t step, Arrays& arrays, Slots& slots) const {
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      const UpdateFactors& factors = factors_[static_cast<std::size_t>(i)];
      const StepScalars own = scalars_of<Rule>(scalars(step), factors);
      for (std::size_t k = layout_->offset(i); k < layout_->offset(i) + layout_->count(i); ++k) {
        float kept[slot_count + 1] = {};
        for (std::size_t s = 0; s < slot_count; ++s) kept[s] = slots[s][k];
        if (factors.trains_at(step)) Rule::update(own, factors, arrays.gradients[k], arrays.values[k], kept);
        update_average(own, arrays.values[k], arrays.averages[k]);
        for (std::size_t s = 0; s < slot_count; ++s) slots[s][k] = kept[s];
      }
    }
  }
};

using Rules = ::testing::Types<Sgd, Momentum, AdamW>;
TYPED_TEST_SUITE(RulesInUpdateKernels, Rules);

TYPED_TEST(RulesInUpdateKernels, EachVariableHasItsFactorsAndKeepsItsSlotsFromStepToStep) {
  this->build({100, 257, 1000, 5, 40});
  this->factors_[1].rate = 0.5f;
  this->factors_[2].weight_decay = 0.125f;
  this->factors_[3].first_step = 2;
  this->factors_[4].end_step = 2;
  typename TestFixture::Slots slots, expected_slots;
  for (auto* const all : {&slots, &expected_slots}) all->fill(std::vector<float>(this->layout_->total()));
  auto expected = this->arrays_;
  for (std::uint64_t step = 0; step < 5; ++step) {
    this->ring_.put(step, {.scalars = this->scalars(static_cast<std::int64_t>(step))}, std::vector<std::uint32_t>{0});
    this->launch(step, slots);
    this->define(static_cast<std::int64_t>(step), expected, expected_slots);
    EXPECT_EQ(this->arrays_, expected) << step;
    EXPECT_EQ(slots, expected_slots) << step;
  }
}

TEST_F(UpdateKernels, RatiosAreOfEachVariablesNormsWhateverTheOrder) {
  build({100, 2 * static_cast<std::int64_t>(NormChunk::max_count) + 1234, 1, 16, 33});
  for (const std::size_t i : {0u, 1u, 3u, 4u}) factors_[i].has_ratio = true;
  factors_[3].first_step = 5;
  std::fill_n(arrays_.gradients.begin() + static_cast<std::ptrdiff_t>(layout_->offset(4)), 33, 0.0f);
  factors_[4].l2 = 0.0f;
  const NormChunks all = norm_chunks(*layout_);
  ring_.put(0, {.scalars = {.at = {0.1f, 0.5f, 0.9f, 0.25f}}}, std::vector<std::uint32_t>{0});
  sums_[cross_entropy_sum] = 1.0f;
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> momentum(layout_->total()), ratios(specs_.size());
    std::vector<Squares> sums(all.chunks.size());
    emulate(NormKernel<Lars>{.chunks = all.chunks.data(),
                             .chunk_count = static_cast<int>(all.chunks.size()),
                             .gradients = arrays_.gradients.data(),
                             .values = arrays_.values.data(),
                             .slots = {momentum.data()},
                             .of_variable = factors_.data(),
                             .table = ring_.table(),
                             .end = {sums_.data(), ring_.progress()},
                             .sums = sums.data()},
            order);
    const RatioOfVariable<Lars> ratio{.ranges = all.of_variable.data(),
                                      .sums = sums.data(),
                                      .of_variable = factors_.data(),
                                      .table = ring_.table(),
                                      .ratios = ratios.data()};
    emulate(ForEachElement{ratio, static_cast<std::int64_t>(specs_.size())}, order);
    for (const std::size_t i : {0u, 1u}) {
      double w = 0.0, g = 0.0;
      for (std::size_t k = layout_->offset(static_cast<int>(i)), n = layout_->count(static_cast<int>(i)); n > 0;
           ++k, --n) {
        w += std::pow(arrays_.values[k], 2.0);
        g += std::pow(arrays_.gradients[k] + factors_[i].l2 * arrays_.values[k], 2.0);
      }
      EXPECT_NEAR(ratios[i], 0.25 * std::sqrt(w / g), 1e-5 * ratios[i]) << i;
    }
    EXPECT_EQ(ratios[2], 1.0f) << "of one that takes none";
    EXPECT_EQ(ratios[3], 1.0f) << "of a frozen one";
    EXPECT_EQ(ratios[4], 1.0f) << "without a gradient";
  }
}

TEST_F(UpdateKernels, L2SumEqualsTheDefinition) {
  const std::int64_t large = L2SumKernel::max_blocks * FlatShare::threads * FlatShare::pack + 1234;
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{}, {1}, {17, 3, 1}, {100, 257, 1000, 5}, {large, 33, 17}}) {
    build(counts);
    double expected = 0.0;
    for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
      for (const float value : std::span(arrays_.values).subspan(layout_->offset(i), layout_->count(i))) {
        expected += specs_[static_cast<std::size_t>(i)].l2_factor * static_cast<double>(value) * value;
      }
    }
    std::vector<std::vector<double>> found;
    for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
      L2SumKernel kernel{.values = arrays_.values.data(), .factors = table()};
      kernel.share.count = layout_->total();
      std::vector<double>& sums = found.emplace_back(static_cast<std::size_t>(kernel.blocks()), NAN);
      kernel.sums = sums.data();
      emulate(kernel, order);
      double sum = 0.0;
      for (const double s : sums) sum += s;
      EXPECT_NEAR(sum, expected, 1e-12 * expected);
    }
    EXPECT_EQ(found[0], found[1]);
  }
}

TEST_F(UpdateKernels, L2SumLeavesOutVariablesWithoutAFactor) {
  build({100, 257});
  arrays_.values[layout_->offset(1)] = std::numeric_limits<float>::infinity();  // its factor is 0
  std::vector<double> sums(1);
  L2SumKernel kernel{.values = arrays_.values.data(), .factors = table(), .sums = sums.data()};
  kernel.share.count = layout_->total();
  emulate(kernel);
  EXPECT_TRUE(std::isfinite(sums[0]));
}

}  // namespace
}  // namespace carillon::testing
