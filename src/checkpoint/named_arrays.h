// Operations on checkpoints that need no network: list the arrays, compare two checkpoints, average several
// checkpoints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Calls visit(full name, array) for every array of a state: variables, moving averages, buffers, optimizer slots. The
/// full name is the path in the file: "variables/layer1/weights", "optimizer/momentum/layer1/weights".
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

/// An array and its full name. The checkpoint state that contains the array must outlive the object.
struct ListedArray {
  std::string name;
  const NamedArray* array = nullptr;
};

std::vector<ListedArray> list_arrays(const CheckpointState& state);

/// Returns the shape as text: "784 x 500", or "scalar".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Statistics of the finite values of an array, in float64. All statistics are 0 if no value is finite.
struct ArraySummary {
  double mean = 0.0, norm = 0.0;  ///< norm: square root of the sum of squares
  double smallest = 0.0, largest = 0.0;
  std::size_t not_finite = 0;
};
ArraySummary summarise(std::span<const float> values);

/// How an array differs between two checkpoints.
struct ArrayDifference {
  std::string name;
  std::string text;  ///< for example "only in the first", "784 x 500 and 784 x 10", "3 of 10 values, by 0.01 at most,
                     ///< 1e-3 of its norm"
};

/// Lists the arrays that differ between two checkpoints. Compares the bits of the values, so -0 and 0 differ, and a NaN
/// equals a NaN with the same bits. The result first has the arrays of `first`, in their order, and then the arrays
/// that only `second` has.
std::vector<ArrayDifference> differences(const CheckpointState& first, const CheckpointState& second);

/// Averages variables, moving averages and buffers of several checkpoints of one model, in float64. The result has no
/// optimizer slots. All other members of the result are copied from the last checkpoint. Errors: usage (there are fewer
/// than two checkpoints), data (a checkpoint and the first checkpoint differ in their model or their arrays; the
/// message names the file).
CheckpointState mean_of(std::span<const LoadedCheckpoint> checkpoints);

}  // namespace carillon
