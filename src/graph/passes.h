// Passes over a graph: they prepare a graph for the device. The passes read the traits of the ops
// (carillon/graph/op.h). Values keep their indices. `results`: values that are read from outside; passes keep these
// values.
//
// passes.cpp fuses ops, inserts ops, and replaces ops by variants that suit the device or the run.
//
// gradient_passes.cpp handles the gradients of values with several readers. The gradient of such a value is the sum of
// its readers' gradients. But backward runs op by op, and each op overwrites the gradients of its inputs.
// give_values_one_reader calls these passes in this order. Each pass handles the cases that the earlier passes left:
//
//   accumulate_input_gradients   The first reader adds its gradient to the sum of the others: layer_norm and
//                                depthwise_conv2d on a GPU, conv2d in bf16 on a CPU.
//   sum_gradients_in_producers   The op that produces the value reads the gradients of its two readers: on a GPU, the
//                                batch_norm at the end of a residual block, and a max_pool without biases.
//   insert_forks                 A fork adds the gradients. This is always possible, and costs a pass over memory.
//   share_gradients              The reverse case: both inputs of an addition have the same gradient. On a GPU, one
//                                memory holds this gradient, so that the addition copies nothing.
//   sum_parameter_gradients      Several ops share a parameter. Each op has its own gradient of the parameter, and an
//                                op adds the gradients.
//
// If the switch shared_gradients (src/device/cuda_backend.h) is off, only insert_forks and sum_parameter_gradients
// run on a GPU.
#pragma once

#include <functional>
#include <span>

#include "carillon/graph/graph.h"

namespace carillon {

/// Removes ops without variables and buffers if no other op reads their outputs.
void remove_unread(Graph& graph, std::span<const Value> results);

/// Fuses each addition (OpTraits::is_addition) into an earlier op (OpTraits::with_addend). The earlier op moves to the
/// position of the addition. If there is an op with parameters between this op and the addition, the addition is not
/// fused, because the order of the parameters is fixed.
void fuse_additions(Graph& graph, DeviceKind device, std::span<const Value> results);

/// Fuses activations into neighbouring ops (OpTraits::with_relu_before, with_activation). A ReLU is fused into the next
/// op if that op is the only reader of the ReLU, and if the ReLU is cheaper there. For example, a ReLU after max_pool
/// gives the same values and gradients as a ReLU before it, and has fewer elements. Otherwise the activation is fused
/// into the op before it.
void fuse_activations(Graph& graph, std::span<const Value> results);

/// For a GPU: moves the biases of an op to the only op that reads its output, if the output of this reader has fewer
/// elements. For example, biases can be added after a max_pool, because max_pool selects the same elements before and
/// after the addition. On a GPU, adding biases is an extra pass over memory. Biases stay if the reader, or an op
/// between their op and the reader, has parameters.
void defer_biases(Graph& graph, std::span<const Value> results);

/// For a GPU: gives the images at the start of a network the channel count that their reader prefers
/// (OpTraits::preferred_channels). The extra channels hold zeros. All ops before the reader must have
/// OpTraits::pads_channels.
void pad_channels(Graph& graph);

/// Runs all passes for a GPU: defer_biases, then pad_channels.
void fit_to_gpu(Graph& graph, std::span<const Value> results);

/// Replaces each op that has OpTraits::synchronized by its synchronized form. Returns the number of replaced ops.
int synchronize_batches(Graph& graph);

/// If an op has OpTraits::frozen and `is_wanted` returns true for the op, replaces the op by its frozen form. The
/// buffers of a frozen op do not change. Returns the number of replaced ops.
int freeze_statistics(Graph& graph, const std::function<bool(const Graph::Node& node)>& is_wanted);

/// Inserts an op between `x` and the readers of `x`. `y` is the output of this op, and the op reads only `x`. All other
/// readers of `x` then read `y`. Moves the op directly after the producer of `x`.
void interpose(Graph& graph, Value x, Value y);

/// The ops that the passes insert. Their names and inputs are ignored.
struct GradientOps {
  Graph::NewOp fork, gradient_fork, parameter_sum;  ///< each op is explained at its pass below
};

/// For training: gives each value that wants a gradient one reader, and each op its own gradients of parameters. Call
/// it after all passes that fuse ops, because these passes assume that ops have one output.
void give_values_one_reader(Graph& graph, DeviceKind device, const GradientOps& ops);

/// If a value wants a gradient and its first reader has OpTraits::accumulating, the first reader gets another output:
/// the value, in the same memory. All later readers read that output. Backward runs the first reader last: the
/// gradients of the later readers are then complete, and the first reader adds its own.
void accumulate_input_gradients(Graph& graph, DeviceKind device);

/// If a value wants a gradient and has two readers, and its producer has OpTraits::summing_gradients, the producer gets
/// another output. No op reads or writes the memory of this output. The gradient of this output is the gradient of the
/// second reader. A `gradient_fork`, which computes nothing, gives each reader its own value.
void sum_gradients_in_producers(Graph& graph, const Graph::NewOp& gradient_fork);

/// Inserts a fork after each value that wants a gradient and has several readers, so that each reader has its own
/// value. `fork`: an op that copies its input to every output and sums their gradients; its name and inputs are
/// ignored.
void insert_forks(Graph& graph, const Graph::NewOp& fork);

/// If several ops share a parameter, the first op writes the parameter's gradient, and the others get values for their
/// gradients (Node::gradient_values). A `parameter_sum` before the first op produces these values. In backward, the
/// `parameter_sum` runs after all ops of the parameter, and adds the gradients of the values to the parameter's
/// gradient.
void sum_parameter_gradients(Graph& graph, const Graph::NewOp& parameter_sum);

/// Lets additions share their gradient with both inputs (OpTraits::sharing_gradients). Backward runs the producer of
/// the later input first. Sharing is safe if that producer leaves the gradient unchanged
/// (OpTraits::keeps_output_gradient). The other producer reads the gradient last, so that producer may overwrite it.
void share_gradients(Graph& graph);

}  // namespace carillon
