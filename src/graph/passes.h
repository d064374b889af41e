// Passes over a graph: what a network says becomes what a device runs. Values keep their numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "carillon/graph/graph.h"

namespace carillon {

/// Leaves out every activation that a neighbour takes over: of ReLUs the op behind it where that is cheaper and the
/// only reader (max_pool: after the pooling there are fewer elements, with the same values and gradients), else the op
/// before it. `results`: values that are read from outside, which stay.
void fuse_activations(Graph& graph, std::span<const Value> results);

/// For a GPU, where an addition of biases is a pass over memory of its own: leaves it to the op behind where that has
/// fewer elements (max_pool, of which the largest stays the largest), and no variables lie between. `results` as above.
void defer_biases(Graph& graph, std::span<const Value> results);

/// For a GPU: gives the images that a network begins with as many channels as the op that reads them would have
/// (OpDefinition::preferred_channels), the others 0, where all ops up to there can.
void pad_channels(Graph& graph);

/// What a graph that a GPU runs goes through: both of the above.
void fit_to_gpu(Graph& graph, std::span<const Value> results);

/// Gives every op that has it its form over all towers' batches. Returns how many have.
int synchronize_batches(Graph& graph);

/// Has all other readers of `x` read `y` instead, which an op makes of x alone; the op moves behind x's.
void interpose(Graph& graph, Value x, Value y);

/// An op with one input and `reader_count` outputs that are it; its gradient is the sum of theirs.
using MakeFork = std::function<std::shared_ptr<const OpDefinition>(int reader_count)>;

/// Where a value that wants a gradient has several readers, puts a fork behind it, so that each has a value of its own.
void insert_forks(Graph& graph, const MakeFork& make_fork);

}  // namespace carillon
