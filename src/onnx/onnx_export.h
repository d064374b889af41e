// Exports a trained network as an ONNX model (IR version 8, operator set 17), for onnxruntime and other readers.
//
//   input   "image"          float32 [batch, channels, height, width]: pixels from 0 to 255, as in records
//   outputs "logits"         float32 [batch, classes or labels]
//           "probabilities"  softmax of the logits (classification) or their sigmoid (multilabel)
//           "numbers"        float32 [batch, k], in their unit: the only output of a regression
//
// The model includes the preprocessing of pixels (scaling, normalisation, centre crop). Source: onnx.ai, "Open Neural
// Network Exchange: intermediate representation".
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// What the outputs of the network mean.
struct OnnxTarget {
  TargetKind kind = TargetKind::class_index;
  std::vector<NumberScale> scales = {};  ///< scales of the numbers of a regression; empty: no scales
};

/// Returns the model as bytes. Equal arguments give equal bytes.
///
/// `variables`, `buffers`: arrays of the network, identified by name. `metadata`: stored in the model.
/// Errors: data (a variable or buffer is missing, not finite or has a wrong shape), failed (an op has no ONNX form; the
/// model has 2 GiB or more).
std::string onnx_model(const Network& network, const OnnxTarget& target, std::span<const NamedArray> variables,
                       std::span<const NamedArray> buffers, const std::map<std::string, std::string>& metadata);

}  // namespace carillon
