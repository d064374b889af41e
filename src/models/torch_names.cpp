#include "src/models/torch_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

/// PyTorch's name; nullopt: PyTorch has no such array.
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

}  // namespace carillon
