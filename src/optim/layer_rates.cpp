#include "src/optim/layer_rates.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// "stage2/block1" of "stage2/block1/conv1/weights"; empty: the variable is in no block.
std::string_view block_of(std::string_view name) {
  constexpr std::string_view word = "block";
  for (std::size_t start = 0; start < name.size();) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    const bool is_block =
        part.starts_with(word) && part.size() > word.size() &&
        std::ranges::all_of(part.substr(word.size()), [](unsigned char c) { return std::isdigit(c); });
    if (is_block) return name.substr(0, end);
    start = end + 1;
  }
  return {};
}

}  // namespace

std::vector<double> layer_rates(double decay, const std::vector<ParameterSpec>& variables) {
  std::vector<double> rates(variables.size(), 1.0);
  if (decay == 1.0) return rates;
  std::vector<int> layers;
  std::string_view block;
  int layer = 0;
  for (const ParameterSpec& variable : variables) {
    const std::string_view own = block_of(variable.name);
    // What is between two blocks belongs to the second one.
    if (own.empty() && !block.empty()) {
      ++layer;
      block = {};
    } else if (!own.empty() && own != block) {
      const bool follows_others = block.empty() && layer > 0;
      if (!follows_others) ++layer;
      block = own;
    }
    layers.push_back(layer);
  }
  if (layer == 0)
    fail(ExitCode::usage, "--layer-decay requires a network with blocks, which have variables such as block1/...");
  for (std::size_t i = 0; i < rates.size(); ++i) rates[i] = std::pow(decay, layer - layers[i]);
  return rates;
}

}  // namespace carillon
