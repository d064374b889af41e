// ParameterHistograms: histograms of all variables and of their gradients, in the order of the parameters' specs.
//
// They are most of the cost of a summary, so two ranks of a host divide the work. `pack` serializes histograms for the
// transfer to the rank that logs.
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
  std::vector<Histogram> gradients;  ///< with the L2 part
};

/// The histograms that a rank computes; the others stay empty.
struct HistogramShare {
  bool variables = true;
  bool gradients = true;
};

/// A CPU with several threads computes several tensors at a time.
ParameterHistograms parameter_histograms(const ParameterStore& parameters, Device& device, const HistogramShare& share);

std::string pack(const std::vector<Histogram>& histograms);
/// `bytes`: the result of `pack`.
std::vector<Histogram> unpack_histograms(std::string_view bytes);

}  // namespace carillon
