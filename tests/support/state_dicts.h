// The arrays of some networks of torchvision and timm (written by tests/data/samples/make_state_dicts.py).
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace carillon::testing {

/// Shapes of arrays by name.
using StateDict = std::map<std::string, std::vector<std::int64_t>>;

/// The arrays of networks with 10 classes, by the network's name in Carillon.
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
