// Passes over a graph: they prepare what a network's function built for the device. They read the ops' traits
// (carillon/graph/op_traits.h). Values keep their indices. `results` are values that are read from outside; a pass
// keeps them.
#pragma once

#include <functional>
#include <span>

#include "carillon/graph/graph.h"

namespace carillon {

/// Fuses additions (type "add") into an op before them (OpTraits::with_addend). The op moves to the place of the
/// addition, so the addition stays if an op between the two has parameters, whose order is fixed.
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

/// Avoids forks. If a value wants a gradient and its first reader has OpTraits::accumulating, the first reader gets
/// another output: the value, in the same memory. All later readers read that output. Backward runs the first reader
/// last: the gradients of the later readers are then complete, and the first reader adds its own. Call it after the
/// passes that fuse ops, which assume one output, and before insert_forks.
void accumulate_input_gradients(Graph& graph, DeviceKind device);

/// For a GPU, in training: avoids forks that add two gradients. If a value that wants a gradient has two readers,
/// `summing` may return a definition of its producer that has one more output, `second`. It is a value without memory
/// accesses; its gradient is the second gradient of the producer's output 0. Then a `fork` (gradient_fork), which
/// computes nothing, gives each reader its own value. Call it after the passes that fuse ops, and before insert_forks.
void sum_gradients_in_producers(Graph& graph, const Graph::NewOp& fork,
                                const std::function<OpTraits::Definition(const Graph::Node& node)>& summing);

/// For a GPU: lets additions share their gradient with both inputs (GradientSharing). Backward runs the
/// producer of the later input first. Sharing is safe if that producer leaves the gradient unchanged,
/// because the other producer may then overwrite it. Call it after insert_forks.
void share_gradients(Graph& graph, DeviceKind device);

/// Inserts a fork after each value that wants a gradient and has several readers, so that each reader has its own
/// value. `fork`: an op that copies its input to every output and sums their gradients; its name and inputs are
/// ignored.
void insert_forks(Graph& graph, const Graph::NewOp& fork);

}  // namespace carillon
