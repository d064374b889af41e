// Reads a network from an ONNX file, to train it. The network has the file's ops, and the file's values as initial
// values. Everything that depends only on constants and on fixed shapes is computed once; the batch is the only free
// extent.
//
// Values have the shapes of ONNX, but keep a layout of their own: a convolution's result is [batch, height, width,
// channels] in memory, and a transposition of it costs nothing.
#pragma once

#include <filesystem>
#include <string>

#include "carillon/models/network.h"

namespace carillon {

struct OnnxOptions {
  std::string head;            ///< --head: the layer that gets new values for other outputs; empty: the last one
  bool fresh_weights = false;  ///< --fresh-weights: draw all initial values
};

/// Whether a name of a network, as in --model, is the path of an ONNX file.
bool is_onnx_file(const std::string& name);

/// The network in the file; its name is the file's name without extension. Reads the file now. Errors: those of
/// OnnxFile; usage (--head names no layer). The returned function reports: data (operators, attributes or shapes that
/// cannot be trained: one line that lists them), usage (the file is for other images).
MakeNetwork onnx_network(const std::filesystem::path& path, const OnnxOptions& options = {});

}  // namespace carillon
