#include "src/train/checkpointing/training_state.h"

#include <utility>

#include "carillon/core/error.h"
#include "src/step/tensor_io.h"

namespace carillon {
namespace {

void check_arrays(const std::vector<NamedArray>& arrays, std::int64_t step) {
  if (const NamedArray* array = find_not_finite(arrays)) {
    fail(ExitCode::failed, "Model diverged: '{}' is not finite at step {}; no checkpoint was written", array->name,
         step);
  }
}

}  // namespace

CheckpointState state_at(const RunPosition& position, const ModelOptions& model, std::string options_json) {
  return {.model = model.name,
          .global_step = position.step,
          .seed = model.seed,
          .stream_position = position.stream_position,
          .options_json = std::move(options_json),
          .variables = {},
          .moving_averages = {},
          .optimizer = {},
          .buffers = {}};
}

void check_finite(const CheckpointState& state) {
  check_arrays(state.variables, state.global_step);
  check_arrays(state.moving_averages, state.global_step);
  for (const auto& [slot, arrays] : state.optimizer) check_arrays(arrays, state.global_step);
  check_arrays(state.buffers, state.global_step);
}

}  // namespace carillon
