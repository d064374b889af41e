#include "src/report/parameter_histograms.h"

#include <cstring>
#include <iterator>
#include <memory>
#include <span>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// A tensor's floats in host memory, alive as long as this object.
struct HostArray {
  std::vector<float> copy;
  std::span<const float> floats;

  HostArray(Device& device, const Tensor& tensor) : floats(host_floats(device, tensor, copy)) {}
};

}  // namespace

ParameterHistograms parameter_histograms(const ParameterStore& parameters, Device& device,
                                         const HistogramShare& share) {
  const std::vector<ParameterSpec>& specs = parameters.specs();
  std::vector<std::unique_ptr<HostArray>> variables, gradients;
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    variables.push_back(std::make_unique<HostArray>(device, parameters.value(i)));
    if (share.gradients) gradients.push_back(std::make_unique<HostArray>(device, parameters.gradient(i)));
  }
  ParameterHistograms result;
  if (share.variables) result.variables.resize(specs.size());
  if (share.gradients) result.gradients.resize(specs.size());
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t task = 0; task < 2 * specs.size(); ++task) {
    const std::size_t i = task / 2;
    if (task % 2 == 0 && share.variables) result.variables[i] = histogram_of(variables[i]->floats);
    if (task % 2 == 1 && share.gradients) {
      result.gradients[i] = histogram_of_sum(gradients[i]->floats, specs[i].l2_factor, variables[i]->floats);
    }
  }
  return result;
}

std::string pack(const std::vector<Histogram>& histograms) {
  std::vector<double> numbers;
  for (const Histogram& histogram : histograms) {
    numbers.insert(numbers.end(), {histogram.min, histogram.max, histogram.count, histogram.sum, histogram.sum_squares,
                                   static_cast<double>(histogram.limits.size())});
    numbers.insert(numbers.end(), histogram.limits.begin(), histogram.limits.end());
    numbers.insert(numbers.end(), histogram.counts.begin(), histogram.counts.end());
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<Histogram> unpack_histograms(std::string_view bytes) {
  const auto take = [&](void* to, std::size_t count) {
    check(count * sizeof(double) <= bytes.size(), "histograms of another length than they say");
    if (count > 0) std::memcpy(to, bytes.data(), count * sizeof(double));
    bytes.remove_prefix(count * sizeof(double));
  };
  std::vector<Histogram> histograms;
  while (!bytes.empty()) {
    double head[6];
    take(head, std::size(head));
    const auto buckets = static_cast<std::size_t>(head[5]);
    Histogram& histogram = histograms.emplace_back(Histogram{
        head[0], head[1], head[2], head[3], head[4], std::vector<double>(buckets), std::vector<double>(buckets)});
    take(histogram.limits.data(), buckets);
    take(histogram.counts.data(), buckets);
  }
  return histograms;
}

}  // namespace carillon
