// Access to the variables of networks for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "carillon/models/network.h"
#include "carillon/models/networks.h"

namespace carillon::testing {

inline const NetworkSettings imagenet_images{.image = {.height = 224, .width = 224, .channels = 3}, .outputs = 1000};

/// Returns the variables of a network by name.
inline std::map<std::string, ParameterSpec> variables(const Network& network) {
  const BuiltNetwork built = build_network(network, {.batch_size = 2});
  EXPECT_EQ(built.graph.shape(built.output)[0], 2);
  std::map<std::string, ParameterSpec> by_name;
  for (const ParameterSpec& spec : built.graph.parameters()) by_name[spec.name] = spec;
  return by_name;
}

inline std::int64_t element_count(const std::map<std::string, ParameterSpec>& variables) {
  std::int64_t count = 0;
  for (const auto& [name, spec] : variables) count += spec.shape.element_count();
  return count;
}

}  // namespace carillon::testing
