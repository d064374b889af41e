// The CPU form of the optimiser: over ranges of the flat arrays, one a thread. With plain SGD 3 reads and 2 writes of 4
// bytes an element, so memory decides its speed.
#include <algorithm>

#include "carillon/core/parallel.h"
#include "src/optim/optimizers.h"

namespace carillon {
namespace {

/// Elements that follow each other, of one tensor.
template <std::size_t slot_count>
struct UpdateArrays {
  std::size_t count;
  const float* gradient;
  float *value, *average;
  std::array<float*, slot_count> slots;
};

template <typename Rule>
CARILLON_SIMD void update_elements(const StepScalars& step_scalars, float l2_factor,
                                   const UpdateArrays<Rule::slots.size()>& arrays) {
  const StepScalars scalars = step_scalars;
  const float* __restrict gradient = arrays.gradient;
  float* __restrict value = arrays.value, * __restrict average = arrays.average;
  for (std::size_t i = 0; i < arrays.count; ++i) {
    float slots[Rule::slots.size() + 1];  // one more than there are: an array has elements
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) slots[k] = arrays.slots[k][i];
    update_element<Rule>(scalars, l2_factor, gradient[i], value[i], average[i], slots);
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) arrays.slots[k][i] = slots[k];
  }
}

/// sum of w^2, in double precision and a fixed order.
CARILLON_SIMD double sum_of_squares(const float* values, std::size_t count) {
  constexpr std::size_t lanes = 16;  // independent sums, so that the order is fixed and yet vectorises
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  double total = 0.0;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * values[i];
  for (const double sum : sums) total += sum;
  return total;
}

template <UpdateRule Rule>
class OptimizerCpu final : public Optimizer {
 public:
  OptimizerCpu(const ParameterStore& parameters, const StepInputs& inputs)
      : parameters_(parameters), inputs_(inputs), average_slot_(parameters.slot_named(moving_average_slot)) {
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) rule_slots_[k] = parameters.slot_named(Rule::slots[k]);
  }

  void apply(const StepEnd& end, Stream& /*stream*/) override {
    if (!end.allows_update()) return;
    update_on_all_threads(*this, 0, parameters_.gradients_and_sums().first(parameters_.layout().total()));
  }

  bool updates_ranges() const override { return true; }

  void update(std::size_t first, std::span<const float> gradients) override {
    const ParameterLayout& layout = parameters_.layout();
    const std::size_t last = first + gradients.size();
    const auto ends_before = [&](int parameter) { return layout.offset(parameter) + layout.count(parameter) <= first; };
    auto parameter = std::ranges::partition_point(layout.order(), ends_before);
    for (; parameter != layout.order().end() && layout.offset(*parameter) < last; ++parameter) {
      const std::size_t begin = std::max(first, layout.offset(*parameter));
      const std::size_t end = std::min(last, layout.offset(*parameter) + layout.count(*parameter));
      update_elements<Rule>(inputs_.scalars, parameters_.specs()[*parameter].l2_factor,
                            arrays_at(begin, gradients.subspan(begin - first, end - begin)));
    }
  }

  double l2_loss(Stream& /*stream*/) override {
    double loss = 0.0;
    for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
      const double factor = parameters_.specs()[i].l2_factor;
      const std::span<const float> values = parameters_.value(static_cast<int>(i)).floats();
      if (factor != 0.0) loss += 0.5 * factor * sum_of_squares(values.data(), values.size());
    }
    return loss;
  }

 private:
  UpdateArrays<Rule::slots.size()> arrays_at(std::size_t begin, std::span<const float> gradients) const {
    UpdateArrays<Rule::slots.size()> arrays{.count = gradients.size(),
                                            .gradient = gradients.data(),
                                            .value = parameters_.values().data() + begin,
                                            .average = parameters_.slot(average_slot_).data() + begin,
                                            .slots = {}};
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) {
      arrays.slots[k] = parameters_.slot(rule_slots_[k]).data() + begin;
    }
    return arrays;
  }

  const ParameterStore& parameters_;
  const StepInputs& inputs_;
  int average_slot_;
  std::array<int, Rule::slots.size()> rule_slots_{};
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer_cpu(std::string_view rule, const ParameterStore& parameters,
                                              const StepInputs& inputs) {
  return with_rule(rule, [&]<typename Rule>(std::type_identity<Rule>) -> std::unique_ptr<Optimizer> {
    return std::make_unique<OptimizerCpu<Rule>>(parameters, inputs);
  });
}

}  // namespace carillon
