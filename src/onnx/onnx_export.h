// A trained network as an ONNX model, for onnxruntime and whatever else reads that format: IR version 8, operator
// set 13.
//
//   input   "image"          float32 [batch, channels, height, width]: pixels from 0 to 255, as records hold them
//   outputs "logits"         float32 [batch, classes]
//           "probabilities"  their softmax
//
// What the network does to pixels before its first layer (scaling, normalising, a crop of the centre) is part of the
// model. Source: onnx.ai, "Open Neural Network Exchange: intermediate representation".
#pragma once

#include <map>
#include <span>
#include <string>

#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// The model's bytes. `variables`, `buffers`: the network's, by name, in any order. `metadata`: texts for people and
/// programs, kept in the model. Equal arguments give equal bytes. Errors: data (a variable or state is missing, of
/// another shape or not finite), failed (an op without a form in ONNX, a model of 2 GiB or more).
std::string onnx_model(const Network& network, std::span<const NamedArray> variables,
                       std::span<const NamedArray> buffers, const std::map<std::string, std::string>& metadata);

}  // namespace carillon
