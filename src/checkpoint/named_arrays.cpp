#include "src/checkpoint/named_arrays.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "carillon/core/error.h"

namespace carillon {
namespace {

std::map<std::string_view, const NamedArray*> by_name(const std::vector<ListedArray>& arrays) {
  std::map<std::string_view, const NamedArray*> found;
  for (const ListedArray& listed : arrays) found.emplace(listed.name, listed.array);
  return found;
}

/// Describes how two arrays differ. Returns an empty text if they are equal.
std::string difference(const NamedArray& first, const NamedArray& second) {
  if (first.shape != second.shape) return shape_text(first.shape) + " and " + shape_text(second.shape);
  std::size_t count = 0;
  double largest = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < first.values.size(); ++i) {
    const float a = first.values[i], b = second.values[i];
    if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) continue;
    const double by = std::abs(static_cast<double>(a) - b);
    ++count;
    largest = by > largest || std::isnan(by) ? by : largest;
    squares += by * by;
  }
  if (count == 0) return "";
  const double norm = summarise(first.values).norm;
  const std::string share = norm > 0.0 ? fmt::format(", {:.3g} of its norm", std::sqrt(squares) / norm) : "";
  return fmt::format("{} of {} values, by {:.3g} at most{}", count, first.values.size(), largest, share);
}

/// Adds the values of `more` to `sums`. Errors: data (names or shapes of the arrays in `more` and `like` differ; the
/// message names the array).
void add(const std::vector<NamedArray>& more, const std::vector<NamedArray>& like, const std::filesystem::path& path,
         std::vector<std::vector<double>>& sums) {
  sums.resize(like.size());
  for (std::size_t i = 0; i < std::max(more.size(), like.size()); ++i) {
    const bool is_there = i < more.size() && i < like.size() && more[i].name == like[i].name;
    if (!is_there || more[i].shape != like[i].shape) {
      fail(ExitCode::data, "{}: its array '{}' is missing, or differs in shape from that of the first checkpoint",
           path.string(), i < like.size() ? like[i].name : more[i].name);
    }
    sums[i].resize(more[i].values.size());
    for (std::size_t k = 0; k < sums[i].size(); ++k) sums[i][k] += more[i].values[k];
  }
}

void put_means(const std::vector<std::vector<double>>& sums, std::size_t count, std::vector<NamedArray>& arrays) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::ranges::transform(sums[i], arrays[i].values.begin(),
                           [&](double sum) { return static_cast<float>(sum / static_cast<double>(count)); });
  }
}

}  // namespace

std::vector<ListedArray> list_arrays(const CheckpointState& state) {
  std::vector<ListedArray> listed;
  visit_arrays(state, [&](const std::string& name, const NamedArray& array) { listed.push_back({name, &array}); });
  return listed;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, " x "));
}

ArraySummary summarise(std::span<const float> values) {
  ArraySummary summary;
  double sum = 0.0, squares = 0.0;
  std::size_t finite = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double v = value;
    summary.smallest = finite == 0 ? v : std::min(summary.smallest, v);
    summary.largest = finite == 0 ? v : std::max(summary.largest, v);
    sum += v;
    squares += v * v;
    ++finite;
  }
  summary.mean = finite == 0 ? 0.0 : sum / static_cast<double>(finite);
  summary.norm = std::sqrt(squares);
  summary.not_finite = values.size() - finite;
  return summary;
}

std::vector<ArrayDifference> differences(const CheckpointState& first, const CheckpointState& second) {
  const std::vector<ListedArray> ours = list_arrays(first), theirs = list_arrays(second);
  const auto in_first = by_name(ours), in_second = by_name(theirs);
  std::vector<ArrayDifference> found;
  for (const ListedArray& listed : ours) {
    const auto other = in_second.find(listed.name);
    const std::string text = other == in_second.end() ? "only in the first" : difference(*listed.array, *other->second);
    if (!text.empty()) found.push_back({listed.name, text});
  }
  for (const ListedArray& listed : theirs) {
    if (!in_first.contains(listed.name)) found.push_back({listed.name, "only in the second"});
  }
  return found;
}

CheckpointState mean_of(std::span<const LoadedCheckpoint> checkpoints) {
  if (checkpoints.size() < 2) fail(ExitCode::usage, "a mean requires at least two checkpoints");
  const CheckpointState& first = checkpoints.front().state;
  std::vector<std::vector<double>> variables, averages, buffers;
  for (const LoadedCheckpoint& checkpoint : checkpoints) {
    const CheckpointState& state = checkpoint.state;
    if (state.model != first.model) {
      fail(ExitCode::data, "{}: has the model '{}', and the first checkpoint has '{}'", checkpoint.path.string(),
           state.model, first.model);
    }
    add(state.variables, first.variables, checkpoint.path, variables);
    add(state.moving_averages, first.moving_averages, checkpoint.path, averages);
    add(state.buffers, first.buffers, checkpoint.path, buffers);
  }
  CheckpointState mean = checkpoints.back().state;
  mean.optimizer.clear();
  put_means(variables, checkpoints.size(), mean.variables);
  put_means(averages, checkpoints.size(), mean.moving_averages);
  put_means(buffers, checkpoints.size(), mean.buffers);
  return mean;
}

}  // namespace carillon
