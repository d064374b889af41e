// The CPU form of the optimiser: over ranges of the flat arrays, one a thread. With plain SGD 3 reads and 2 writes of 4
// bytes an element, so memory decides its speed.
#include <algorithm>
#include <optional>

#include "carillon/core/parallel.h"
#include "src/optim/newton_schulz.h"
#include "src/optim/optimizers.h"
#include "src/optim/update_factors.h"

namespace carillon {
namespace {

/// Elements that follow each other, of one tensor.
template <std::size_t slot_count>
struct UpdateArrays {
  std::size_t count;
  const float* gradient;
  float *value, *average;
  std::array<float*, slot_count> slots;
  float* slow;  ///< where the step looks ahead, else null
};

template <typename Rule, bool ahead>
CARILLON_SIMD void update_elements(const StepScalars& scalars_of_variable, const UpdateFactors& factors_of_variable,
                                   const UpdateArrays<Rule::slots.size()>& arrays) {
  const StepScalars scalars = scalars_of_variable;
  const UpdateFactors factors = factors_of_variable;
  const float* __restrict gradient = arrays.gradient;
  float* __restrict value = arrays.value, * __restrict average = arrays.average, * __restrict slow = arrays.slow;
  for (std::size_t i = 0; i < arrays.count; ++i) {
    float slots[Rule::slots.size() + 1];  // one more than there are: an array has elements
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) slots[k] = arrays.slots[k][i];
    update_element<Rule>(scalars, factors, gradient[i], value[i], average[i], slots, ahead ? slow + i : nullptr);
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) arrays.slots[k][i] = slots[k];
  }
}

/// Floats whose squares are summed by themselves.
constexpr std::size_t norm_block = 4096;

/// Rule::direction of up to norm_block elements.
template <UpdateRule Rule>
CARILLON_SIMD void find_directions(const StepScalars& scalars_of_variable, const UpdateFactors& factors_of_variable,
                                   const UpdateArrays<Rule::slots.size()>& arrays, float* __restrict directions) {
  const StepScalars scalars = scalars_of_variable;
  const UpdateFactors factors = factors_of_variable;
  for (std::size_t i = 0; i < arrays.count; ++i) {
    float slots[Rule::slots.size()];
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) slots[k] = arrays.slots[k][i];
    directions[i] = Rule::direction(scalars, factors, arrays.gradient[i], arrays.value[i], slots);
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) arrays.slots[k][i] = slots[k];
  }
}

template <bool ahead>
CARILLON_SIMD void update_copies_of(const StepScalars& step_scalars, std::size_t count, float* __restrict values,
                                    float* __restrict averages, float* __restrict slow) {
  const StepScalars scalars = step_scalars;
  for (std::size_t i = 0; i < count; ++i) update_copies(scalars, values[i], averages[i], ahead ? slow + i : nullptr);
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
  static constexpr bool takes_ranges = !NormedRule<Rule> && !MatrixRule<Rule>;

 public:
  OptimizerCpu(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs)
      : parameters_(parameters),
        factors_(update_factors(settings, parameters.specs())),
        inputs_(inputs),
        muon_steps_(settings.muon_steps),
        normalizes_(settings.muon_normalizes),
        average_slot_(parameters.slot_named(moving_average_slot)) {
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) rule_slots_[k] = parameters.slot_named(Rule::slots[k]);
    if (settings.lookahead.every > 0) slow_slot_ = parameters.slot_named(lookahead_slot);
  }

  void apply(const StepEnd& end, Stream& /*stream*/) override {
    if (!end.allows_update()) return;
    if constexpr (takes_ranges) {
      update_on_all_threads(*this, 0, parameters_.gradients_and_sums().first(parameters_.layout().total()));
    } else {
      for (const int parameter : parameters_.layout().order()) update_whole(parameter);
    }
  }

  bool updates_ranges() const override { return takes_ranges; }

  void update(std::size_t first, std::span<const float> gradients) override {
    if (!takes_ranges) return Optimizer::update(first, gradients);
    const ParameterLayout& layout = parameters_.layout();
    const std::size_t last = first + gradients.size();
    const auto ends_before = [&](int parameter) { return layout.offset(parameter) + layout.count(parameter) <= first; };
    auto parameter = std::ranges::partition_point(layout.order(), ends_before);
    for (; parameter != layout.order().end() && layout.offset(*parameter) < last; ++parameter) {
      const std::size_t begin = std::max(first, layout.offset(*parameter));
      const std::size_t end = std::min(last, layout.offset(*parameter) + layout.count(*parameter));
      update_part(factors_[static_cast<std::size_t>(*parameter)],
                  arrays_at(begin, gradients.subspan(begin - first, end - begin)));
    }
  }

  double l2_loss() override {
    double loss = 0.0;
    for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
      const double factor = parameters_.specs()[i].l2_factor;
      const std::span<const float> values = parameters_.value(static_cast<int>(i)).floats();
      if (factor != 0.0) loss += 0.5 * factor * sum_of_squares(values.data(), values.size());
    }
    return loss;
  }

 private:
  /// Of one variable.
  void update_part(const UpdateFactors& factors, const UpdateArrays<Rule::slots.size()>& arrays) const {
    if (factors.trains_at(inputs_.scalars.step)) {
      const auto update = arrays.slow != nullptr ? update_elements<Rule, true> : update_elements<Rule, false>;
      update(scalars_of<Rule>(inputs_.scalars, factors), factors, arrays);
    } else {
      const auto update = arrays.slow != nullptr ? update_copies_of<true> : update_copies_of<false>;
      update(inputs_.scalars, arrays.count, arrays.value, arrays.average, arrays.slow);
    }
  }

  void update_whole(int parameter) {
    UpdateFactors factors = factors_[static_cast<std::size_t>(parameter)];
    std::span<const float> gradients = parameters_.gradient(parameter).floats();
    if (factors.trains_at(inputs_.scalars.step)) {
      const StepScalars scalars = scalars_of<Rule>(inputs_.scalars, factors);
      if constexpr (NormedRule<Rule>) {
        factors.rate *= ratio_of<Rule>(scalars, factors, squares_of(parameter, scalars, factors));
      } else if (factors.orthogonal) {
        gradients = orthogonalized(parameter, scalars, factors);
      }
    }
    const std::size_t offset = parameters_.layout().offset(parameter);
    parallel_ranges(gradients.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      update_part(factors, arrays_at(offset + begin, gradients.subspan(begin, end - begin)));
    });
  }

  /// Of a MatrixRule: what `update` finds in place of the gradient, which peers may still be reading.
  std::span<const float> orthogonalized(int parameter, const StepScalars& scalars, UpdateFactors& factors) {
    const MatrixShape shape = matrix_shape(parameters_.specs()[static_cast<std::size_t>(parameter)].shape);
    directions_.resize(parameters_.layout().count(parameter));
    const Squares squares = squares_of(parameter, scalars, factors, directions_);
    newton_schulz_.run(directions_, shape, std::sqrt(squares.direction), muon_steps_);
    if (normalizes_) factors.kept = normalizing_factor(shape.columns, squares);
    return directions_;
  }

  /// Block by block, so that the sums do not depend on the threads. Directions go to `kept`, where it is not empty.
  Squares squares_of(int parameter, const StepScalars& scalars, const UpdateFactors& factors,
                     std::span<float> kept = {}) const {
    const std::size_t offset = parameters_.layout().offset(parameter);
    const std::span<const float> gradients = parameters_.gradient(parameter).floats();
    std::vector<Squares> of_blocks((gradients.size() + norm_block - 1) / norm_block);
    parallel_items(of_blocks.size(), norm_block, elementwise_grain, [&](std::size_t first, std::size_t last) {
      float directions[norm_block];
      for (std::size_t block = first; block < last; ++block) {
        const std::size_t begin = block * norm_block, count = std::min(norm_block, gradients.size() - begin);
        const auto arrays = arrays_at(offset + begin, gradients.subspan(begin, count));
        find_directions<Rule>(scalars, factors, arrays, directions);
        if (!kept.empty()) std::copy_n(directions, count, kept.data() + begin);
        of_blocks[block] = {sum_of_squares(arrays.value, count), sum_of_squares(directions, count)};
      }
    });
    Squares squares;
    for (const Squares& block : of_blocks) {
      squares.value += block.value;
      squares.direction += block.direction;
    }
    return squares;
  }

  UpdateArrays<Rule::slots.size()> arrays_at(std::size_t begin, std::span<const float> gradients) const {
    UpdateArrays<Rule::slots.size()> arrays{.count = gradients.size(),
                                            .gradient = gradients.data(),
                                            .value = parameters_.values().data() + begin,
                                            .average = parameters_.slot(average_slot_).data() + begin,
                                            .slots = {},
                                            .slow = nullptr};
    if (slow_slot_ && looks_ahead(inputs_.scalars)) arrays.slow = parameters_.slot(*slow_slot_).data() + begin;
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) {
      arrays.slots[k] = parameters_.slot(rule_slots_[k]).data() + begin;
    }
    return arrays;
  }

  const ParameterStore& parameters_;
  std::vector<UpdateFactors> factors_;  ///< [parameter]
  const StepInputs& inputs_;
  std::int64_t muon_steps_;
  bool normalizes_;
  NewtonSchulz newton_schulz_;  ///< of a MatrixRule
  std::vector<float> directions_;
  int average_slot_;
  std::optional<int> slow_slot_;  ///< where there is a lookahead
  std::array<int, Rule::slots.size()> rule_slots_{};
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer_cpu(const OptimizerSettings& settings, const ParameterStore& parameters,
                                              const StepInputs& inputs) {
  return with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) -> std::unique_ptr<Optimizer> {
    return std::make_unique<OptimizerCpu<Rule>>(settings, parameters, inputs);
  });
}

}  // namespace carillon
