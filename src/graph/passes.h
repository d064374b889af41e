// Passes over a graph: they prepare the graph that a network's function built for the device. They read the traits of
// the ops (carillon/graph/op_traits.h). Values keep their indices. `results` are values that are read from outside; a
// pass keeps them.
#pragma once

#include <functional>
#include <span>

#include "carillon/graph/graph.h"

namespace carillon {

/// Fuses additions (OpTraits::is_addition) into an op before them (OpTraits::with_addend). The op moves to the place of
/// the addition. If an op between the two has parameters, the addition stays, because the order of the parameters is
/// fixed.
void fuse_additions(Graph& graph, std::span<const Value> results);

/// Fuses activations into neighbouring ops (OpTraits::with_relu_before, with_activation). A ReLU is fused into the next
/// op if this op is the only reader and the fusion is cheaper there: max_pool has fewer elements after the pooling,
/// with equal values and gradients. Otherwise the activation is fused into the op before it.
void fuse_activations(Graph& graph, std::span<const Value> results);

/// For a GPU: moves the biases of an op to its only reader, if the reader has fewer elements (max_pool: the largest
/// element stays the largest). On a GPU, adding biases is an extra pass over memory. Biases stay if an op between the
/// two has parameters.
void defer_biases(Graph& graph, std::span<const Value> results);

/// For a GPU: gives the images at the start of a network the channel count that their reader prefers
/// (OpTraits::preferred_channels). The extra channels hold zeros. All ops before the reader must have
/// OpTraits::pads_channels.
void pad_channels(Graph& graph);

/// All passes for a GPU: defer_biases, then pad_channels.
void fit_to_gpu(Graph& graph, std::span<const Value> results);

/// Replaces each op that has OpTraits::synchronized by its synchronized form. Returns the number of replaced ops.
int synchronize_batches(Graph& graph);

/// Replaces each op that has OpTraits::frozen and for which `is_wanted` returns true by its frozen form. Its buffers no
/// longer change. Returns the number of replaced ops.
int freeze_statistics(Graph& graph, const std::function<bool(const Graph::Node& node)>& is_wanted);

/// Inserts an op between `x` and the readers of `x`. `y` is the output of this op, and the op reads only `x`. All other
/// readers of `x` then read `y`. Moves the op directly after the producer of `x`.
void interpose(Graph& graph, Value x, Value y);

}  // namespace carillon
