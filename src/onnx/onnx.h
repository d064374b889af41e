// ONNX files: exports a trained network, and reads a network to train it.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/models/network.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

// Exports a trained network as an ONNX model (IR version 8, operator set 17), for onnxruntime and other readers.
//
//   input   "image"          float32 [batch, channels, height, width]: pixels from 0 to 255, as in records
//   outputs "logits"         float32 [batch, classes or labels]
//           "probabilities"  softmax (classification) or sigmoid (multilabel) of the logits
//           "numbers"        float32 [batch, k], in the unit of the targets; the only output of a regression
//
// The model includes the preprocessing of pixels (scaling, normalisation, centre crop). Source: onnx.ai, "Open Neural
// Network Exchange: intermediate representation".

/// What the outputs of the network mean.
struct OnnxTarget {
  TargetKind kind = TargetKind::class_index;
  std::vector<NumberScale> scales = {};  ///< scales of the numbers of a regression; empty: no scales
};

/// Returns the model as bytes. Equal arguments give equal bytes.
///
/// `variables`, `buffers`: arrays of the network, identified by name. `metadata`: stored in the model.
/// Errors: data (a variable or buffer is missing, not finite or has a wrong shape), failed (ONNX cannot express an op;
/// the model has 2 GiB or more).
std::string onnx_model(const Network& network, const OnnxTarget& target, std::span<const NamedArray> variables,
                       std::span<const NamedArray> buffers, const std::map<std::string, std::string>& metadata);

// Reads a network from an ONNX file, to train it. The network has the file's ops, and its initial values are the file's
// values. Everything that depends only on constants and fixed shapes is computed once. Only the extent of the batch may
// vary.
//
// Values have the shapes of ONNX but their own layout in memory (importer.h): the result of a convolution is [batch,
// height, width, channels] in memory.

struct OnnxOptions {
  std::string head;            ///< --head: layer with new values if the number of outputs differs; empty: the last
  bool fresh_weights = false;  ///< --fresh-weights: draw all initial values
};

/// Whether a network's name, such as a value of --model, is the path of an ONNX file.
bool is_onnx_file(const std::string& name);

/// Reads the file and returns a function that makes its network. The network's name is the file's name without
/// extension. Errors: as OnnxFile; usage (--head names no layer). Errors of the returned function: data (operators,
/// attributes or shapes that cannot be trained), usage (the file is for images of another size).
MakeNetwork onnx_network(const std::filesystem::path& path, const OnnxOptions& options = {});

}  // namespace carillon
