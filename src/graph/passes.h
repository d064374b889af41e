// Passes over a graph: they prepare what a network's function built for the device. They read the ops' traits
// (carillon/graph/op_traits.h). Values keep their indices. `results` are values that are read from outside; a pass
// keeps them.
#pragma once

#include <functional>
#include <span>

#include "carillon/graph/graph.h"

namespace carillon {

/// Fuses additions (OpTraits::is_addition) into an op before them (OpTraits::with_addend). The op moves to the place of
/// the addition, so the addition stays if an op between the two has parameters, whose order is fixed.
void fuse_additions(Graph& graph, std::span<const Value> results);

/// Fuses activations into neighbouring ops (OpTraits::with_relu_before, with_activation). The next op takes a ReLU
/// first, if it is the only reader and that is cheaper: max_pool has fewer elements after the pooling, with equal
/// values and gradients. Otherwise the op before takes the activation.
void fuse_activations(Graph& graph, std::span<const Value> results);

/// For a GPU: moves the biases of an op to its only reader, if the reader has fewer elements (max_pool: the largest
/// element stays the largest). Adding biases is an extra pass over memory there. Biases stay if an op between the two
/// has parameters.
void defer_biases(Graph& graph, std::span<const Value> results);

/// For a GPU: gives the images at the start of a network the channel count that their reader prefers
/// (OpTraits::preferred_channels). The extra channels hold zeros. All ops before the reader must have
/// OpTraits::pads_channels.
void pad_channels(Graph& graph);

/// All passes for a GPU: defer_biases, then pad_channels.
void fit_to_gpu(Graph& graph, std::span<const Value> results);

/// Replaces each op that has OpTraits::synchronized by its synchronized form. Returns the number of replaced ops.
int synchronize_batches(Graph& graph);

/// Replaces each op that has OpTraits::frozen, if it is wanted, by its frozen form, and keeps its buffers. Returns the
/// number of replaced ops.
int freeze_statistics(Graph& graph, const std::function<bool(const Graph::Node& node)>& is_wanted);

/// Makes all other readers of `x` read `y` instead, where `y` is the output of an op that reads only `x`. Moves that op
/// directly after the producer of `x`.
void interpose(Graph& graph, Value x, Value y);

}  // namespace carillon
