#include "src/models/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr TorchName kinds[] = {{"weights", "weight"},
                               {"biases", "bias"},
                               {"gamma", "weight"},
                               {"beta", "bias"},
                               {"moving_mean", "running_mean"},
                               {"moving_variance", "running_var"}};

/// Returns PyTorch's name for `ours`, or nullopt if PyTorch has no such array.
std::optional<std::string_view> find_name(std::span<const TorchName> names, std::string_view ours) {
  const auto found = std::ranges::find(names, ours, &TorchName::first);
  return found != names.end() ? std::optional(found->second) : std::nullopt;
}

/// Removes "word12/" from the start of `rest` and returns 12. Returns nullopt if `rest` starts with another text.
std::optional<int> take_number(std::string_view word, std::string_view& rest) {
  if (!rest.starts_with(word)) return std::nullopt;
  const char* const begin = rest.data() + word.size();
  int number = 0;
  const auto [end, error] = std::from_chars(begin, rest.data() + rest.size(), number);
  if (error != std::errc{} || end == rest.data() + rest.size() || *end != '/') return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end + 1 - rest.data()));
  return number;
}

std::string torch_name(const TorchFamily& family, std::string_view array) {
  std::string_view rest = array;
  std::string place;
  if (const auto stage = take_number("stage", rest)) {
    place = fmt::format("{}{}.", family.stage, *stage - 1 + family.first_stage);
  }
  if (const auto block = take_number("block", rest)) place += fmt::format("{}{}.", family.block, *block - 1);

  if (const auto whole = find_name(family.arrays, rest)) return place + std::string(*whole);
  const std::size_t slash = std::min(rest.rfind('/'), rest.size());
  const auto layer = find_name(family.layers, rest.substr(0, slash));
  const auto kind = find_name(kinds, rest.substr(std::min(slash + 1, rest.size())));
  check(layer && kind, "an array of the network has no name in PyTorch");
  return fmt::format("{}{}.{}", place, *layer, *kind);
}

}  // namespace

Network with_torch_names(Network network, const TorchFamily& family) {
  Graph graph(1, Arithmetic::fp32, {.image = network.image});
  add_network(graph, network);
  const auto add_names = [&](const auto& specs) {
    for (const auto& spec : specs) network.torch_names.emplace(spec.name, torch_name(family, spec.name));
  };
  add_names(graph.parameters());
  add_names(graph.buffers());
  return network;
}

bool is_only_torchs(std::string_view torch_name) { return torch_name.ends_with(".num_batches_tracked"); }

namespace {

/// Computes Keys' cubic kernel with a = -0.5.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1.0;
  return x < 2.0 ? ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0 : 0.0;
}

/// The filter of one output: the output is the sum of weights[i] * input[first + i].
struct Taps {
  std::size_t first = 0;
  std::vector<double> weights;
};

std::vector<Taps> taps_of(std::size_t from, std::size_t to) {
  const double factor = static_cast<double>(from) / static_cast<double>(to), width = std::max(factor, 1.0);
  std::vector<Taps> all(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double center = factor * (static_cast<double>(i) + 0.5), radius = 2.0 * width;
    Taps& taps = all[i];
    taps.first = static_cast<std::size_t>(std::max(center - radius + 0.5, 0.0));
    const std::size_t end = std::min(static_cast<std::size_t>(center + radius + 0.5), from);
    double sum = 0.0;
    for (std::size_t j = taps.first; j < end; ++j) {
      sum += taps.weights.emplace_back(cubic((static_cast<double>(j) - center + 0.5) / width));
    }
    for (double& weight : taps.weights) weight /= sum;
  }
  return all;
}

/// Returns the side of the square grid in positions of this shape, or nullopt if the shape has no square grid.
std::optional<std::size_t> side_of(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most_positions = std::int64_t{1} << 32;  // for a larger side, the square could overflow
  if (shape.size() != 3 || shape[0] != 1 || shape[1] < 2 || shape[1] > most_positions) return std::nullopt;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(shape[1] - 1))));
  return side * side == shape[1] - 1 ? std::optional(static_cast<std::size_t>(side)) : std::nullopt;
}

/// Resizes the middle axis: [outer, from, inner] -> [outer, all.size(), inner].
std::vector<double> resized_axis(const std::vector<double>& values, std::size_t outer, std::size_t from,
                                 std::size_t inner, const std::vector<Taps>& all) {
  std::vector<double> result(outer * all.size() * inner, 0.0);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      double* const to = result.data() + (o * all.size() + i) * inner;
      for (std::size_t j = 0; j < all[i].weights.size(); ++j) {
        const double* const source = values.data() + (o * from + all[i].first + j) * inner;
        for (std::size_t c = 0; c < inner; ++c) to[c] += all[i].weights[j] * source[c];
      }
    }
  }
  return result;
}

}  // namespace

bool are_position_grids(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  constexpr std::int64_t most_positions = 1 + 256 * 256;  // limit of the memory that a file can request
  return side_of(from) && side_of(to) && from[1] <= most_positions && from[2] == to[2];
}

std::vector<float> resized_positions(const std::vector<float>& positions, const std::vector<std::int64_t>& from,
                                     const std::vector<std::int64_t>& to) {
  check(are_position_grids(from, to), "positions of square grids");
  const std::size_t old_side = *side_of(from), side = *side_of(to), channels = static_cast<std::size_t>(from[2]);
  const auto grid = positions.begin() + from[2];
  const std::vector<Taps> taps = taps_of(old_side, side);
  std::vector<double> values(grid, positions.end());
  values = resized_axis(values, old_side, old_side, channels, taps);
  values = resized_axis(values, 1, old_side, side * channels, taps);
  std::vector<float> result(positions.begin(), grid);
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

}  // namespace carillon
