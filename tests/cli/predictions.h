// Runs carillon_predict --json, and parses its output.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace carillon {

/// Runs the program, which must succeed. Returns one object for each picture. `arguments`: the checkpoint and the
/// pictures.
inline std::vector<nlohmann::json> predictions(const std::string& arguments) {
  const Outcome outcome = run_program("carillon_predict --json " + arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  std::istringstream lines(outcome.output);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

}  // namespace carillon
