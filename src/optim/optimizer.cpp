#include "src/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "src/core/has_cuda.h"
#include "src/optim/rules.h"

namespace carillon {

double moving_average_decay(double decay, std::int64_t updates_applied) {
  const double t = static_cast<double>(updates_applied);
  return std::min(decay, (1.0 + t) / (10.0 + t));
}

void update_on_all_threads(ElementwiseOptimizer& optimizer, std::size_t first, std::span<const float> gradients) {
  parallel_ranges(gradients.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
    optimizer.update_range(first + begin, gradients.subspan(begin, end - begin));
  });
}

std::vector<Slot> optimizer_slots(const OptimizerSettings& settings) {
  std::vector<Slot> slots;
  if (settings.keeps_averages()) {
    slots.push_back({.name = std::string(moving_average_slot), .starts_as_values = true});
  }
  with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) {
    for (const std::string_view name : Rule::slots) slots.push_back({.name = std::string(name)});
  });
  if (settings.lookahead.every > 0) slots.push_back({.name = std::string(lookahead_slot), .starts_as_values = true});
  return slots;
}

bool is_elementwise(const OptimizerSettings& settings) {
  return with_rule(settings.rule, []<typename Rule>(std::type_identity<Rule>) { return ElementwiseRule<Rule>; });
}

StepScalars step_scalars(const OptimizerSettings& settings, std::int64_t step, std::int64_t schedule_step) {
  StepScalars scalars{.step = step};
  scalars.at[learning_rate_scalar] = static_cast<float>(settings.learning_rate.rate(schedule_step));
  scalars.at[average_decay_scalar] = static_cast<float>(moving_average_decay(settings.moving_average_decay, step + 1));
  scalars.at[lookahead_scalar] = static_cast<float>(lookahead_part(settings.lookahead, step + 1));
  with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) {
    Rule::set_scalars(settings, scalars);
    Rule::set_age(scalars, step);
  });
  return scalars;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterStore& parameters,
                                          Device& device, const StepInputs& inputs, Arithmetic arithmetic) {
  if (device.kind() == DeviceKind::cpu) {
    if (is_elementwise(settings)) return make_elementwise_optimizer(settings, parameters, inputs);
    return make_variable_optimizer(settings, parameters, inputs);
  }
  if constexpr (has_cuda) return make_optimizer_cuda(settings, parameters, device, inputs, arithmetic);
  static_cast<void>(arithmetic);
  fail(ExitCode::failed, "device {} requires a CUDA build", device.name());
}

double lookahead_part(const LookaheadSettings& settings, std::int64_t updates) {
  constexpr double none = -1.0;
  if (settings.every == 0) return none;
  if (updates % settings.every != 0) return updates == settings.steps ? 0.0 : none;
  if (settings.power == 0.0) return 1.0 - settings.decay;
  check(settings.steps > 0, "a lookahead with a power requires the number of steps");
  const double done = static_cast<double>(std::min(updates, settings.steps)) / static_cast<double>(settings.steps);
  return 1.0 - settings.decay * std::pow(done, settings.power);
}

BufferLookahead::BufferLookahead(const LookaheadSettings& settings, const BufferStore& buffers, Device& device,
                                 const StepInputs& inputs)
    : buffers_(buffers),
      device_(device),
      inputs_(inputs),
      slow_(settings.every > 0 ? buffers.specs() : std::vector<BufferSpec>(), device) {}

void BufferLookahead::begin() {
  if (!slow_.specs().empty()) copy_floats(device_, buffers_.values(), slow_.values());
}

void BufferLookahead::begin_equal() {
  for (std::size_t i = 0; i < slow_.specs().size(); ++i) {
    if (slow_.specs()[i].across_ranks != AcrossRanks::equal) continue;
    const int buffer = static_cast<int>(i);
    copy_floats(device_, buffers_.tensor(buffer).floats(), slow_.tensor(buffer).floats());
  }
}

void BufferLookahead::enqueue(const StepEnd& end) {
  if (slow_.specs().empty()) return;
  const std::span<float> values = buffers_.values(), slow = slow_.values();
  if (device_.kind() == DeviceKind::cpu) {
    if (!end.allows_update() || !looks_ahead(inputs_.scalars)) return;
    for (std::size_t i = 0; i < values.size(); ++i) look_ahead(inputs_.scalars, values[i], slow[i]);
    return;
  }
  if constexpr (has_cuda) {
    return enqueue_lookahead_cuda({values.data(), slow.data(), inputs_.table, end}, values.size(), device_.stream());
  }
  fail(ExitCode::failed, "device {} requires a CUDA build", device_.name());
}

void enqueue_scale(std::span<float> values, float factor, Device& device) {
  const ScaleElement scale{values.data(), factor};
  if (device.kind() == DeviceKind::cpu) {
    return parallel_ranges(values.size(), elementwise_grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) scale(static_cast<std::int64_t>(i));
    });
  }
  if constexpr (has_cuda) return enqueue_scale_cuda(scale, values.size(), device.stream());
  fail(ExitCode::failed, "device {} requires a CUDA build", device.name());
}

}  // namespace carillon
