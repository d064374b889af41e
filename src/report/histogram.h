// Histogram: counts of float values in TensorFlow's exponential buckets, for the variables and gradients of a summary.
//
// Bucket limits: -DBL_MAX, ..., -1e-12 * 1.1^k, ..., 0, ..., 1e-12 * 1.1^k (below 1e20), ..., DBL_MAX; bucket i counts
// limit[i-1] <= x < limit[i]. Source: tensorflow/core/lib/histogram/histogram.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/device/device.h"
#include "carillon/graph/parameters.h"

namespace carillon {

struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  ///< finite values only; NaN and infinities count in none of these members
  double sum = 0;
  double sum_squares = 0;
  /// A run of empty buckets is one bucket, as TensorFlow writes it.
  std::vector<double> limits;
  std::vector<double> counts;
};

/// Histograms cause most of the cost of a summary. Therefore this reads the values once, and does not search the bucket
/// of each value.
Histogram histogram_of(std::span<const float> values);

/// Histogram of values[i] + factor * others[i]; product and sum are each rounded to float. Requires equal lengths.
Histogram histogram_of_sum(std::span<const float> values, float factor, std::span<const float> others);

/// All bucket limits, ascending.
std::span<const double> histogram_limits();

/// Histograms of all variables and of their gradients, in the order of the parameters' specs.
struct ParameterHistograms {
  std::vector<Histogram> variables;
  std::vector<Histogram> gradients;  ///< with the L2 part
};

/// The part of the histograms that a rank computes; the rank leaves the other histograms empty. Two ranks of a host
/// divide the work.
struct HistogramShare {
  bool variables = true;
  bool gradients = true;
};

/// A CPU with several threads computes the histograms of several tensors at a time.
ParameterHistograms parameter_histograms(const ParameterStore& parameters, Device& device, const HistogramShare& share);

/// Serialises histograms, to send them to the rank that logs.
std::string pack(const std::vector<Histogram>& histograms);
/// `bytes`: the result of `pack`.
std::vector<Histogram> unpack_histograms(std::string_view bytes);

}  // namespace carillon
