#include "kernels/dense_classifier/classifier_step.h"

#include "carillon/core/error.h"
#include "kernels/dense/dense.h"
#include "kernels/dense_classifier/classifier_kernels.h"
#include "kernels/scale_input/scale_input.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace carillon {
namespace {

/// Whether `node` is a dense layer with biases, on flattened samples.
bool is_layer(const Graph::Node& node, bool relu) {
  const DenseForm* const form = dense_form(*node.definition);
  return form != nullptr && form->relu == relu && !form->per_position && node.parameters.size() == 2;
}

bool is_plain_loss(const Graph::Node& node) {
  const SoftmaxCrossEntropyParams* const params = softmax_cross_entropy_params(*node.definition);
  return params != nullptr && params->label_smoothing == 0.0f && !params->mixing.mixes() && !params->weighs_classes();
}

/// Whether each op reads the output of the op before it, and the last op writes `loss`.
bool is_chain(const std::vector<Graph::Node>& nodes, Value loss) {
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].inputs.empty() || nodes[i].inputs[0] != nodes[i - 1].outputs[0]) return false;
  }
  return nodes.back().outputs[0] == loss.index;
}

bool fits(const ClassifierForm& form) {
  return form.batch <= ClassifierLimits::batch && form.inputs <= ClassifierLimits::inputs &&
         form.hidden <= ClassifierLimits::hidden && form.classes <= ClassifierLimits::classes &&
         form.hidden * form.classes <= ClassifierLimits::weights2 && form.inputs % classifier_pack == 0 &&
         form.hidden % classifier_pack == 0;
}

}  // namespace

std::optional<ClassifierForm> classifier_form(const Graph& graph, Value loss) {
  const std::vector<Graph::Node>& nodes = graph.nodes();
  if (nodes.size() != 4 || activation_type(graph.arithmetic()) != DType::f32 || !is_chain(nodes, loss)) {
    return std::nullopt;
  }
  const ScaleInputParams* const input = scale_input_params(*nodes[0].definition);
  if (input == nullptr || !is_layer(nodes[1], true) || !is_layer(nodes[2], false) || !is_plain_loss(nodes[3])) {
    return std::nullopt;
  }
  const Shape& weights1 = graph.parameters()[nodes[1].parameters[0]].shape;
  const ClassifierForm form{.batch = graph.batch_size(),
                            .inputs = weights1[0],
                            .hidden = weights1[1],
                            .classes = graph.parameters()[nodes[2].parameters[0]].shape[1],
                            .scale = input->scale,
                            .weights1 = nodes[1].parameters[0],
                            .biases1 = nodes[1].parameters[1],
                            .weights2 = nodes[2].parameters[0],
                            .biases2 = nodes[2].parameters[1]};
  check(input->sample.element_count() == form.inputs, "images of this activation type have no padded channels");
  return fits(form) ? std::optional(form) : std::nullopt;
}

}  // namespace carillon
