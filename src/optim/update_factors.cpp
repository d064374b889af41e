#include "src/optim/update_factors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <set>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "carillon/optim/optimizer_settings.h"
#include "src/optim/rules.h"

namespace carillon {
namespace {

enum class RuleKind { plain, by_norms, of_matrices };

RuleKind kind_of(const OptimizerSettings& settings) {
  return with_rule(settings.rule, []<typename Rule>(std::type_identity<Rule>) {
    return NormedRule<Rule> ? RuleKind::by_norms : MatrixRule<Rule> ? RuleKind::of_matrices : RuleKind::plain;
  });
}

bool is_matrix(const ParameterSpec& variable) { return variable.shape.rank() >= 2 && !variable.is_embedding; }

/// Marks the hidden matrices, which are all matrices except the first and the last matrix.
std::vector<bool> hidden_matrices(const std::vector<ParameterSpec>& variables) {
  std::vector<bool> hidden;
  for (const ParameterSpec& variable : variables) hidden.push_back(is_matrix(variable));
  const auto first = std::ranges::find(hidden, true);
  if (first == hidden.end()) return hidden;
  *first = false;
  const auto last = std::find(hidden.rbegin(), hidden.rend(), true);
  if (last != hidden.rend()) *last = false;
  return hidden;
}

/// True if the rule, by default, applies no weight decay to vectors (biases, scale and shift of a batch norm).
bool excludes_vectors(const OptimizerSettings& settings) {
  if (std::ranges::find(settings.decay_exclude, no_decay_exclusion) != settings.decay_exclude.end()) return false;
  return with_rule(settings.rule, []<typename Rule>(std::type_identity<Rule>) { return decays_matrices_only<Rule>; });
}

/// Returns the weight decay of a variable if no group states one. It is 0 for matrices that muon normalises.
float default_decay(const OptimizerSettings& settings, const UpdateFactors& factors, bool is_vector) {
  const bool none = (is_vector && excludes_vectors(settings)) || (factors.orthogonal && settings.muon_normalizes);
  return none ? 0.0f : static_cast<float>(settings.weight_decay);
}

/// Returns the variable's weight decay. Errors: usage (a group states a weight decay for the variable, but
/// --decay-exclude excludes the variable).
float decay_of(const ParameterSpec& variable, const OptimizerSettings& settings, const ParameterGroup& own,
               const UpdateFactors& factors) {
  if (!matches_any(settings.decay_exclude, variable.name)) {
    return own.decay ? static_cast<float>(*own.decay) : default_decay(settings, factors, !is_matrix(variable));
  }
  if (own.decay.value_or(0.0) != 0.0) {
    fail(ExitCode::usage, "--decay-exclude excludes {}, and {} '{}' states its weight decay: give one of them",
         variable.name, own.option, own.pattern);
  }
  return 0.0f;
}

/// Returns sqrt(max(1, rows / columns)). rows and columns are the last two extents in PyTorch's layout: [out, in] or
/// [out, in, height, width].
float scale_of(const Shape& shape) {
  const auto rows = static_cast<double>(shape.rank() == 2 ? shape[1] : shape[0]);
  const auto columns = static_cast<double>(shape.rank() == 2 ? shape[0] : shape[1]);
  return static_cast<float>(std::sqrt(std::max(1.0, rows / columns)));
}

/// The properties of a variable that depend on its place in the network.
struct VariablePlace {
  bool hidden = false;  ///< true: a hidden matrix
  double layer_rate = 1.0;
};

UpdateFactors factors_of(const ParameterSpec& variable, const OptimizerSettings& settings, RuleKind kind,
                         const VariablePlace& place) {
  const auto group =
      std::ranges::find_if(settings.groups, [&](const auto& g) { return name_matches(g.pattern, variable.name); });
  const ParameterGroup own = group == settings.groups.end() ? ParameterGroup{} : *group;
  UpdateFactors factors{.l2 = variable.l2_factor,
                        .rate = static_cast<float>(own.rate * place.layer_rate),
                        .has_ratio = is_matrix(variable),
                        .orthogonal = kind == RuleKind::of_matrices && own.muon.value_or(place.hidden),
                        .first_step = own.frozen_until,
                        .end_step = variable.trains ? own.frozen_after : own.frozen_until};
  if (factors.orthogonal && !is_matrix(variable)) {
    fail(ExitCode::usage, "--group: '{}' requests muon for {}, which is not a matrix", own.pattern, variable.name);
  }
  if (factors.orthogonal && !settings.muon_normalizes) factors.scale = scale_of(variable.shape);
  factors.weight_decay = decay_of(variable, settings, own, factors);
  return factors;
}

/// Checks that each pattern of decay_exclude matches a variable. Errors: usage.
void check_decay_exclude(const OptimizerSettings& settings, const std::vector<ParameterSpec>& variables) {
  std::vector<std::string> patterns = settings.decay_exclude;
  std::erase(patterns, no_decay_exclusion);
  check_patterns("--decay-exclude", patterns, variables);
}

}  // namespace

std::vector<double> layer_rates(double decay, const std::vector<ParameterSpec>& variables) {
  std::vector<double> rates(variables.size(), 1.0);
  if (decay == 1.0) return rates;
  std::vector<int> layers;
  int block = -1, layer = 0;
  for (const ParameterSpec& variable : variables) {
    // Variables between two blocks belong to the layer of the second block.
    const bool follows_others = block < 0 && layer > 0;
    if (variable.block != block && !follows_others) ++layer;
    block = variable.block;
    layers.push_back(layer);
  }
  if (layer == 0) fail(ExitCode::usage, "--layer-decay: the network has no blocks (omit --layer-decay)");
  for (std::size_t i = 0; i < rates.size(); ++i) rates[i] = std::pow(decay, layer - layers[i]);
  return rates;
}

void check_groups(const std::vector<ParameterGroup>& groups, const std::vector<ParameterSpec>& variables) {
  std::set<std::string_view> taken;  // the variables to which earlier groups apply
  for (const ParameterGroup& group : groups) {
    std::vector<std::string_view> names, matched;
    for (const ParameterSpec& variable : variables) {
      names.push_back(variable.name);
      if (name_matches(group.pattern, variable.name)) matched.push_back(variable.name);
    }
    if (matched.empty()) {
      fail(ExitCode::usage, "{}: '{}' matches no variable; there are: {}", group.option, group.pattern,
           fmt::join(names, ", "));
    }
    if (std::ranges::all_of(matched, [&](std::string_view name) { return taken.contains(name); })) {
      fail(ExitCode::usage, "{}: earlier patterns match all variables of '{}'", group.option, group.pattern);
    }
    taken.insert(matched.begin(), matched.end());
  }
}

std::vector<TrainedSteps> trained_steps(const OptimizerSettings& settings,
                                        const std::vector<ParameterSpec>& variables) {
  std::vector<TrainedSteps> steps;
  for (const UpdateFactors& factors : update_factors(settings, variables)) {
    steps.push_back({.first = factors.first_step, .end = factors.end_step});
  }
  return steps;
}

void check_variables(const OptimizerSettings& settings, const std::vector<ParameterSpec>& variables) {
  static_cast<void>(update_factors(settings, variables));
}

std::vector<UpdateFactors> update_factors(const OptimizerSettings& settings,
                                          const std::vector<ParameterSpec>& variables) {
  check_groups(settings.groups, variables);
  check_decay_exclude(settings, variables);
  const RuleKind kind = kind_of(settings);
  const std::vector<bool> hidden = hidden_matrices(variables);
  const std::vector<double> rates = layer_rates(settings.layer_decay, variables);
  std::vector<UpdateFactors> factors;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    factors.push_back(factors_of(variables[i], settings, kind, {.hidden = hidden[i], .layer_rate = rates[i]}));
  }
  if (kind == RuleKind::of_matrices && std::ranges::none_of(factors, &UpdateFactors::orthogonal)) {
    fail(ExitCode::usage, "--optimizer {} found no hidden matrix; select matrices with --group 'PATTERN: muon=1'",
         settings.rule);
  }
  return factors;
}

namespace {

/// sums[i] = factor * values[i] + gradients[i]
CARILLON_SIMD void add_l2(float factor, const float* __restrict values, const float* __restrict gradients,
                          std::size_t count, float* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] = std::fma(factor, values[i], gradients[i]);
}

double tree_sum(std::span<const double> parts) {
  if (parts.empty()) return 0.0;
  if (parts.size() == 1) return parts[0];
  const std::size_t half = std::bit_floor(parts.size() - 1);
  return tree_sum(parts.first(half)) + tree_sum(parts.subspan(half));
}

}  // namespace

CARILLON_SIMD double sum_of_squares(const float* values, std::size_t count) {
  constexpr std::size_t lanes = 16;  // number of independent partial sums: the compiler vectorises them, and their
                                     // order is fixed
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

double l2_loss(const ParameterStore& parameters) {
  double loss = 0.0;
  for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
    const double factor = parameters.specs()[i].l2_factor;
    const std::span<const float> values = parameters.value(static_cast<int>(i)).floats();
    if (factor != 0.0) loss += 0.5 * factor * sum_of_squares(values.data(), values.size());
  }
  return loss;
}

GradientNorm::GradientNorm(const OptimizerSettings& settings, const ParameterStore& parameters,
                           const StepInputs& inputs)
    : parameters_(parameters),
      inputs_(inputs),
      factors_(update_factors(settings, parameters.specs())),
      limit_(settings.clip_norm) {}

double GradientNorm::square_sum(std::size_t first, std::span<const float> means) const {
  double sum = 0.0;
  for_each_variable_in(parameters_.layout(), first, first + means.size(),
                       [&](int variable, std::size_t begin, std::size_t end) {
                         const UpdateFactors& factors = factors_[static_cast<std::size_t>(variable)];
                         if (!factors.trains_at(inputs_.scalars.step)) return;
                         const float* gradients = means.data() + (begin - first);
                         float with_l2[sum_block_floats];
                         if (factors.l2 != 0.0f) {
                           add_l2(factors.l2, parameters_.values().data() + begin, gradients, end - begin, with_l2);
                           gradients = with_l2;
                         }
                         sum += sum_of_squares(gradients, end - begin);
                       });
  return sum;
}

ClippedNorm GradientNorm::of_blocks(std::span<const double> square_sums) const {
  return clipped_norm(tree_sum(square_sums), limit_);
}

ClippedNorm GradientNorm::of_gradients() {
  square_sums_.resize(block_count());
  const std::span<const float> gradients = parameters_.gradients_and_sums().first(parameters_.layout().total());
  parallel_blocks(gradients.size(), sum_block_floats, elementwise_grain, [&](std::size_t begin, std::size_t end) {
    square_sums_[begin / sum_block_floats] = square_sum(begin, gradients.subspan(begin, end - begin));
  });
  return of_blocks(square_sums_);
}

}  // namespace carillon
