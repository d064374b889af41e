// What can be said of checkpoints without knowing their networks: their arrays in one list, what differs between two,
// and the mean of several.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Calls visit(full name, array) for every array of a state: variables, moving averages, buffers, the optimizer's
/// slots. The full name is the path in the file: "variables/layer1/weights", "optimizer/momentum/layer1/weights".
template <typename State, typename Visit>
void visit_arrays(State& state, const Visit& visit) {
  const auto visit_group = [&](const std::string& group, auto& arrays) {
    for (auto& array : arrays) visit(group + "/" + array.name, array);
  };
  visit_group("variables", state.variables);
  visit_group("moving_averages", state.moving_averages);
  visit_group("state", state.buffers);
  for (auto& [slot, arrays] : state.optimizer) visit_group("optimizer/" + slot, arrays);
}

/// An array, of a state that outlives this, and its full name.
struct ListedArray {
  std::string name;
  const NamedArray* array = nullptr;
};

std::vector<ListedArray> list_arrays(const CheckpointState& state);

/// "784 x 500"; of a scalar "scalar".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Of an array's finite values, in float64; all 0 where there are none.
struct ArraySummary {
  double mean = 0.0, norm = 0.0;  ///< norm: the root of the sum of squares
  double smallest = 0.0, largest = 0.0;
  std::size_t not_finite = 0;
};
ArraySummary summarise(std::span<const float> values);

/// What of one array is not the same in two checkpoints.
struct ArrayDifference {
  std::string name;
  std::string
      text;  ///< "only in the first", "784 x 500 and 784 x 10", "3 of 10 values, by 0.01 at most, 1e-3 of its norm"
};

/// Bit by bit: -0 and 0 differ, and a NaN is equal to the same NaN. In the order of the first's arrays, then those that
/// only the second has.
std::vector<ArrayDifference> differences(const CheckpointState& first, const CheckpointState& second);

/// Variables, moving averages and buffers as the means, in float64, of those of several checkpoints of one model; all
/// else is the last one's, but there is no state of an optimizer. Errors: usage (fewer than two), data (another model
/// than the first's, or other arrays: names the file).
CheckpointState mean_of(std::span<const LoadedCheckpoint> checkpoints);

}  // namespace carillon
