// The shapes of the arrays in the state_dicts of some torchvision and timm networks.
// tests/data/samples/make_state_dicts.py wrote them.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace carillon::testing {

/// The shape of each array, by name.
using StateDict = std::map<std::string, std::vector<std::int64_t>>;

/// Returns the state_dicts of networks with 10 classes. The keys are the names of the networks in Carillon.
inline std::map<std::string, StateDict> state_dicts() {
  std::map<std::string, StateDict> all;
  std::ifstream file(CARILLON_TEST_SAMPLES "/state_dicts.txt");
  StateDict* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (line[0] != ' ') {
      current = &all[name];
      continue;
    }
    std::vector<std::int64_t>& shape = (*current)[name];
    for (std::int64_t extent = 0; words >> extent;) shape.push_back(extent);
  }
  return all;
}

}  // namespace carillon::testing
