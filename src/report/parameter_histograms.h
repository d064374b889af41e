// ParameterHistograms: histograms of all variables, or of their gradients, in the order of the parameters' specs.
//
// They are most of what a summary costs, so that the ranks of a host share them out; `pack` makes bytes of them for the
// way to the rank that logs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/graph/parameters.h"
#include "src/report/histogram.h"

namespace carillon {

struct ParameterHistograms {
  std::vector<Histogram> variables;
  std::vector<Histogram> gradients;  ///< the L2 part included
};

/// What a rank is to take; the other stays empty.
struct HistogramShare {
  bool variables = true;
  bool gradients = true;
};

/// On a CPU with several threads, several tensors at a time.
ParameterHistograms parameter_histograms(const ParameterStore& parameters, Device& device, const HistogramShare& share);

std::string pack(const std::vector<Histogram>& histograms);
/// Requires what `pack` made.
std::vector<Histogram> unpack_histograms(std::string_view bytes);

}  // namespace carillon
