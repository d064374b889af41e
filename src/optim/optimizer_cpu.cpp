// The optimisers of a CPU: each thread updates a range of the flat arrays. Plain SGD reads 3 floats and writes 2 floats
// per element, so memory bandwidth bounds its speed.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/optim/newton_schulz.h"
#include "src/optim/rules.h"
#include "src/optim/update_factors.h"

namespace carillon {
namespace {

/// Consecutive elements of one variable, in all arrays that an update reads or writes.
template <std::size_t slot_count>
struct UpdateArrays {
  std::size_t count;
  const float* gradient;
  float* value;
  float* average;  ///< null: there are no moving averages
  std::array<float*, slot_count> slots;
  float* slow;  ///< null: the step has no lookahead

  UpdateArrays part(std::size_t begin, std::size_t size) const {
    UpdateArrays part{size, gradient + begin, value + begin, average, slots, slow};
    if (average != nullptr) part.average += begin;
    for (float*& slot : part.slots) slot += begin;
    if (slow != nullptr) part.slow += begin;
    return part;
  }
};

template <typename Rule, bool averages, bool ahead>
CARILLON_SIMD void update_elements(const StepScalars& scalars_of_variable, const UpdateFactors& factors_of_variable,
                                   const UpdateArrays<Rule::slots.size()>& arrays) {
  const StepScalars scalars = scalars_of_variable;
  const UpdateFactors factors = factors_of_variable;
  const float* __restrict gradient = arrays.gradient;
  float* __restrict value = arrays.value, * __restrict average = arrays.average, * __restrict slow = arrays.slow;
  for (std::size_t i = 0; i < arrays.count; ++i) {
    float slots[Rule::slots.size() + 1];  // + 1, because C++ has no empty arrays
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) slots[k] = arrays.slots[k][i];
    update_element<Rule>(scalars, factors, gradient[i], value[i], averages ? average + i : nullptr, slots,
                         ahead ? slow + i : nullptr);
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) arrays.slots[k][i] = slots[k];
  }
}

/// Number of floats in each partial sum of squares.
constexpr std::size_t norm_block = 4096;

/// Computes Rule::direction of up to norm_block elements.
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

CARILLON_SIMD void multiply(const float* __restrict values, float factor, std::size_t count,
                            float* __restrict products) {
  for (std::size_t i = 0; i < count; ++i) products[i] = values[i] * factor;
}

template <bool averages, bool ahead>
CARILLON_SIMD void update_copies_of(const StepScalars& step_scalars, std::size_t count, float* __restrict values,
                                    float* __restrict average, float* __restrict slow) {
  const StepScalars scalars = step_scalars;
  for (std::size_t i = 0; i < count; ++i) {
    update_copies(scalars, values[i], averages ? average + i : nullptr, ahead ? slow + i : nullptr);
  }
}

/// Calls `function` with two std::bool_constant arguments: whether the arrays have moving averages, and whether the
/// step looks ahead.
template <std::size_t slot_count, typename Function>
void with_copies(const UpdateArrays<slot_count>& arrays, const Function& function) {
  const auto with = [&](auto averages) {
    if (arrays.slow != nullptr) return function(averages, std::true_type());
    return function(averages, std::false_type());
  };
  if (arrays.average != nullptr) return with(std::true_type());
  return with(std::false_type());
}

/// Updates parts of single variables.
template <UpdateRule Rule>
class VariableUpdate {
 public:
  VariableUpdate(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs)
      : parameters_(parameters),
        factors_(update_factors(settings, parameters.specs())),
        inputs_(inputs),
        average_slot_(settings.keeps_averages() ? std::optional(parameters.slot_named(moving_average_slot))
                                                : std::nullopt) {
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) rule_slots_[k] = parameters.slot_named(Rule::slots[k]);
    if (settings.lookahead.every > 0) slow_slot_ = parameters.slot_named(lookahead_slot);
    if (settings.clip_norm > 0.0) norm_.emplace(settings, parameters, inputs);
    is_clipped_ = settings.clip_norm == 0.0;
  }

  const ParameterStore& parameters() const { return parameters_; }
  const StepScalars& scalars() const { return inputs_.scalars; }
  /// Returns the variable's factors. Their L2 factor is multiplied by the clip factor, like the gradient.
  UpdateFactors factors(int parameter) const {
    UpdateFactors factors = factors_[static_cast<std::size_t>(parameter)];
    factors.l2 *= clipped_.factor;
    return factors;
  }

  double gradient_norm() const { return clipped_.norm; }
  void clip(const ClippedNorm& norm) {
    clipped_ = norm;
    is_clipped_ = true;
  }
  void check_clipped() const { check(is_clipped_, "with clip_norm, clip() must precede update_range()"); }
  /// Computes the norm from the mean gradients in the store.
  void clip_gradients() {
    if (norm_) clip(norm_->of_gradients());
  }
  /// Returns the clipped gradients of `count` elements. Writes them to `products` if the factor is not 1, otherwise
  /// returns `gradients`.
  const float* clipped_gradients(const float* gradients, std::size_t count, float* products) const {
    if (clipped_.factor == 1.0f) return gradients;
    multiply(gradients, clipped_.factor, count, products);
    return products;
  }

  /// Updates the elements of one variable to which `arrays` points. arrays.gradient: the gradients before clipping or,
  /// if the variable is orthogonal, the orthogonalised directions.
  void update(const UpdateFactors& factors, const UpdateArrays<Rule::slots.size()>& arrays) const {
    if (!factors.trains_at(scalars().step)) {
      return with_copies(arrays, [&](auto averages, auto ahead) {
        update_copies_of<averages, ahead>(scalars(), arrays.count, arrays.value, arrays.average, arrays.slow);
      });
    }
    if (clipped_.factor == 1.0f || factors.orthogonal) return update_trained(factors, arrays);
    float products[sum_block_floats];
    for (std::size_t begin = 0; begin < arrays.count; begin += sum_block_floats) {
      auto part = arrays.part(begin, std::min(sum_block_floats, arrays.count - begin));
      part.gradient = clipped_gradients(part.gradient, part.count, products);
      update_trained(factors, part);
    }
  }

  /// Returns the parts of all arrays that hold the elements from `begin` on, gradients.size() elements each.
  UpdateArrays<Rule::slots.size()> arrays_at(std::size_t begin, std::span<const float> gradients) const {
    UpdateArrays<Rule::slots.size()> arrays{.count = gradients.size(),
                                            .gradient = gradients.data(),
                                            .value = parameters_.values().data() + begin,
                                            .average = nullptr,
                                            .slots = {},
                                            .slow = nullptr};
    if (average_slot_) arrays.average = parameters_.slot(*average_slot_).data() + begin;
    if (slow_slot_ && looks_ahead(scalars())) arrays.slow = parameters_.slot(*slow_slot_).data() + begin;
    for (std::size_t k = 0; k < Rule::slots.size(); ++k) {
      arrays.slots[k] = parameters_.slot(rule_slots_[k]).data() + begin;
    }
    return arrays;
  }

 private:
  void update_trained(const UpdateFactors& factors, const UpdateArrays<Rule::slots.size()>& arrays) const {
    with_copies(arrays, [&](auto averages, auto ahead) {
      update_elements<Rule, averages, ahead>(scalars_of<Rule>(scalars(), factors), factors, arrays);
    });
  }

  const ParameterStore& parameters_;
  std::vector<UpdateFactors> factors_;  ///< [parameter]
  const StepInputs& inputs_;
  std::optional<int> average_slot_;  ///< has a value only if there are moving averages
  std::optional<int> slow_slot_;     ///< has a value only if there is a lookahead
  std::array<int, Rule::slots.size()> rule_slots_{};
  std::optional<GradientNorm> norm_;  ///< has a value only if clip_norm is above 0
  ClippedNorm clipped_;
  bool is_clipped_ = true;  ///< false: `clip` must be called before an update
};

template <ElementwiseRule Rule>
class ElementwiseOptimizerCpu final : public ElementwiseOptimizer {
 public:
  ElementwiseOptimizerCpu(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs)
      : variables_(settings, parameters, inputs) {}

  void apply(const StepEnd& end, Stream& /*stream*/) override {
    if (!end.allows_update()) return;
    variables_.clip_gradients();
    const ParameterStore& parameters = variables_.parameters();
    update_on_all_threads(*this, 0, parameters.gradients_and_sums().first(parameters.layout().total()));
  }

  void update_range(std::size_t first, std::span<const float> gradients) override {
    variables_.check_clipped();
    for_each_variable_in(variables_.parameters().layout(), first, first + gradients.size(),
                         [&](int parameter, std::size_t begin, std::size_t end) {
                           variables_.update(
                               variables_.factors(parameter),
                               variables_.arrays_at(begin, gradients.subspan(begin - first, end - begin)));
                         });
  }

  void clip(const ClippedNorm& norm) override { variables_.clip(norm); }
  double gradient_norm() const override { return variables_.gradient_norm(); }

 private:
  VariableUpdate<Rule> variables_;
};

/// The optimiser for rules that need a variable's norms, or that treat a variable as a matrix.
template <UpdateRule Rule>
class VariableOptimizerCpu final : public Optimizer {
 public:
  VariableOptimizerCpu(const OptimizerSettings& settings, const ParameterStore& parameters, const StepInputs& inputs)
      : variables_(settings, parameters, inputs),
        muon_steps_(settings.muon_steps),
        normalizes_(settings.muon_normalizes) {}

  void apply(const StepEnd& end, Stream& /*stream*/) override {
    if (!end.allows_update()) return;
    variables_.clip_gradients();
    for (const int parameter : variables_.parameters().layout().order()) update_variable(parameter);
  }

  double gradient_norm() const override { return variables_.gradient_norm(); }

 private:
  void update_variable(int parameter) {
    const ParameterStore& parameters = variables_.parameters();
    UpdateFactors factors = variables_.factors(parameter);
    std::span<const float> gradients = parameters.gradient(parameter).floats();
    if (factors.trains_at(variables_.scalars().step)) {
      const StepScalars scalars = scalars_of<Rule>(variables_.scalars(), factors);
      if constexpr (NormedRule<Rule>) {
        factors.rate *= ratio_of<Rule>(scalars, factors, squares_of(parameter, scalars, factors));
      } else if (factors.orthogonal) {
        gradients = orthogonalized(parameter, scalars, factors);
      }
    }
    const std::size_t offset = parameters.layout().offset(parameter);
    parallel_ranges(gradients.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      variables_.update(factors, variables_.arrays_at(offset + begin, gradients.subspan(begin, end - begin)));
    });
  }

  /// Returns the direction that a MatrixRule's update uses instead of the gradient. Does not change the gradient,
  /// because other ranks may still read it.
  std::span<const float> orthogonalized(int parameter, const StepScalars& scalars, UpdateFactors& factors) {
    const ParameterStore& parameters = variables_.parameters();
    const MatrixShape shape = matrix_shape(parameters.specs()[static_cast<std::size_t>(parameter)].shape);
    directions_.resize(parameters.layout().count(parameter));
    const Squares squares = squares_of(parameter, scalars, factors, directions_);
    newton_schulz_.run(directions_, shape, std::sqrt(squares.direction), muon_steps_);
    if (normalizes_) factors.kept = normalizing_factor(shape.columns, squares);
    return directions_;
  }

  /// Sums in blocks of fixed size, so that the sums do not depend on the thread count. If `kept` is not empty, copies
  /// the directions to `kept`.
  Squares squares_of(int parameter, const StepScalars& scalars, const UpdateFactors& factors,
                     std::span<float> kept = {}) const {
    const std::size_t offset = variables_.parameters().layout().offset(parameter);
    const std::span<const float> gradients = variables_.parameters().gradient(parameter).floats();
    std::vector<Squares> of_blocks((gradients.size() + norm_block - 1) / norm_block);
    parallel_items(of_blocks.size(), norm_block, elementwise_grain, [&](std::size_t first, std::size_t last) {
      float directions[norm_block], products[norm_block];
      for (std::size_t block = first; block < last; ++block) {
        const std::size_t begin = block * norm_block, count = std::min(norm_block, gradients.size() - begin);
        auto arrays = variables_.arrays_at(offset + begin, gradients.subspan(begin, count));
        arrays.gradient = variables_.clipped_gradients(arrays.gradient, count, products);
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

  VariableUpdate<Rule> variables_;
  std::int64_t muon_steps_;
  bool normalizes_;
  NewtonSchulz newton_schulz_;  ///< only a MatrixRule uses it
  std::vector<float> directions_;
};

}  // namespace

std::unique_ptr<ElementwiseOptimizer> make_elementwise_optimizer(const OptimizerSettings& settings,
                                                                 const ParameterStore& parameters,
                                                                 const StepInputs& inputs) {
  using Made = std::unique_ptr<ElementwiseOptimizer>;
  return with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) -> Made {
    if constexpr (ElementwiseRule<Rule>) {
      return std::make_unique<ElementwiseOptimizerCpu<Rule>>(settings, parameters, inputs);
    }
    fail(ExitCode::failed, "update rule {} is not elementwise", Rule::name);
  });
}

std::unique_ptr<Optimizer> make_variable_optimizer(const OptimizerSettings& settings, const ParameterStore& parameters,
                                                   const StepInputs& inputs) {
  return with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) -> std::unique_ptr<Optimizer> {
    if constexpr (!ElementwiseRule<Rule>) {
      return std::make_unique<VariableOptimizerCpu<Rule>>(settings, parameters, inputs);
    }
    fail(ExitCode::failed, "update rule {} is elementwise", Rule::name);
  });
}

}  // namespace carillon
