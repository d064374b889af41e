// Exports a trained network as an ONNX model, for onnxruntime and other readers: IR version 8, operator set 13.
//
//   input   "image"          float32 [batch, channels, height, width]: pixels from 0 to 255, as in records
//   outputs "logits"         float32 [batch, classes]
//           "probabilities"  their softmax
//
// The model includes the preprocessing of pixels (scaling, normalisation, centre crop). Source: onnx.ai, "Open Neural
// Network Exchange: intermediate representation".
#pragma once

#include <map>
#include <span>
#include <string>

#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// Returns the bytes of the model. `variables`, `buffers`: arrays of the network, identified by name. `metadata`:
/// stored in the model. Equal arguments give equal bytes. Errors: data (a variable or buffer is missing, misshapen or
/// not finite), failed (an op without ONNX form, a model of 2 GiB or more).
std::string onnx_model(const Network& network, std::span<const NamedArray> variables,
                       std::span<const NamedArray> buffers, const std::map<std::string, std::string>& metadata);

}  // namespace carillon
